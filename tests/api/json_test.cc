#include "api/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace anymask {
namespace {

TEST(Json, Nests) {
  Json j;
  j.open('{')
      .field("a", int64_t{1})
      .key("b")
      .open('[')
      .value(true)
      .value(2.5)
      .open('{')
      .close('}')
      .close(']')
      .field("c", "x")
      .close('}');
  EXPECT_EQ(j.text(), R"({"a": 1, "b": [true, 2.5, {}], "c": "x"})");
}

TEST(Json, EscapesAndKnowsNoInfinity) {
  Json j;
  j.open('[')
      .value("q\"\\\n\x01")
      .value(std::numeric_limits<double>::infinity())
      .value(std::numeric_limits<double>::quiet_NaN())
      .null();
  j.close(']');
  EXPECT_EQ(j.text(), R"(["q\"\\\u000a\u0001", null, null, null])");
}

}  // namespace
}  // namespace anymask
