/* A C program built against an installed anymask: a mask from text and back again. */
#include <anymask/anymask.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char* text = NULL;
  anymask_mask_t mask = NULL;
  if (anymask_mask_parse("causal & window(127, 0)", NULL, 0, &mask) != ANYMASK_OK ||
      anymask_mask_text(mask, &text) != ANYMASK_OK) {
    fprintf(stderr, "%s\n", anymask_last_error());
    return 1;
  }
  const int same = strcmp(text, "causal & window(127, 0)") == 0;
  printf("anymask %s: %s\n", anymask_version(), text);
  anymask_free(text);
  anymask_mask_free(mask);
  return same ? 0 : 1;
}
