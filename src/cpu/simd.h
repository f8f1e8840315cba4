// Which vector targets are compiled. Include before any Highway header, in every file that uses one.
//
// x86: AVX-512 (Highway's AVX3), AVX2, and the baseline any x86-64 runs; Arm: NEON. Everything between costs compile
// time and serves processors that are no longer sold. Scalable vectors (SVE, RVV) cannot live in arrays, which register
// tiles are: NEON serves them. Highway numbers targets by chip family, and the names of some bits are missing in older
// versions: so the bits are spelt out.
#pragma once

#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
// Bits 0-7: AVX10, AVX3_SPR, AVX3_ZEN4, AVX3_DL. 11, 12: SSE4, SSSE3. Kept: 8 AVX3, 9 AVX2, 14 SSE2, 61 EMU128, 62
// SCALAR.
#define HWY_DISABLED_TARGETS ((0xFFLL) | (1LL << 11) | (1LL << 12))
#else
// Bits 18-27: SVE in all its forms; 37: RVV.
#define HWY_DISABLED_TARGETS ((0x3FFLL << 18) | (1LL << 37))
#endif
