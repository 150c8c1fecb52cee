// The one function of bcryptprimitives.dll that Go programs call, which Wine 8 does not have: random bytes.
unsigned char __stdcall SystemFunction036(void *, unsigned long);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *p, unsigned long long n) {
	return SystemFunction036(p, n);
}
