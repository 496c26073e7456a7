#include "textflag.h"

// func xor16(x *float32, n int) (xor uint64, nan bool)
TEXT ·xor16(SB), NOSPLIT, $0-25
	MOVQ  x+0(FP), SI
	MOVQ  n+8(FP), CX
	VPXOR Y0, Y0, Y0 // the XOR, in four registers
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4 // ones where there was a NaN

	PCALIGN $32

next:
	VCVTPS2PD (SI), Y5
	VCVTPS2PD 16(SI), Y6
	VCVTPS2PD 32(SI), Y7
	VCVTPS2PD 48(SI), Y8
	VMOVUPS   (SI), Y9
	VCMPPS    $3, 32(SI), Y9, Y9 // of two, one is NaN
	VPXOR     Y5, Y0, Y0
	VPXOR     Y6, Y1, Y1
	VPXOR     Y7, Y2, Y2
	VPXOR     Y8, Y3, Y3
	VPOR      Y9, Y4, Y4
	ADDQ      $64, SI
	SUBQ      $16, CX
	JNZ       next

	VPXOR        Y1, Y0, Y0
	VPXOR        Y3, Y2, Y2
	VPXOR        Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPXOR        X1, X0, X0
	VPSRLDQ      $8, X0, X1
	VPXOR        X1, X0, X0
	VMOVQ        X0, AX
	MOVQ         AX, xor+16(FP)
	VPTEST       Y4, Y4
	SETNE        nan+24(FP)
	VZEROUPPER
	RET

// func upperHalves16(dst *byte, x *float32, n int) (odd bool)
TEXT ·upperHalves16(SB), NOSPLIT, $0-25
	MOVQ  dst+0(FP), DI
	MOVQ  x+8(FP), SI
	MOVQ  n+16(FP), CX
	VPXOR Y4, Y4, Y4 // lower halves
	VPXOR Y5, Y5, Y5 // ones where there was a NaN

	PCALIGN $32

next:
	VMOVUPS   (SI), Y0
	VMOVUPS   32(SI), Y1
	VCMPPS    $3, Y1, Y0, Y2
	VPOR      Y2, Y5, Y5
	VPOR      Y1, Y0, Y2
	VPSLLD    $16, Y2, Y2
	VPOR      Y2, Y4, Y4
	VPSRLD    $16, Y0, Y0
	VPSRLD    $16, Y1, Y1
	VPACKUSDW Y1, Y0, Y0    // within halves of the register: 0 to 3, 8 to 11, 4 to 7, 12 to 15
	VPERMQ    $0xd8, Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNZ       next

	VPOR   Y5, Y4, Y4
	VPTEST Y4, Y4
	SETNE  odd+24(FP)
	VZEROUPPER
	RET
