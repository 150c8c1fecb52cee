// The only function of bcryptprimitives.dll that Go programs call, for random bytes. Wine 8 lacks it.
unsigned char __stdcall SystemFunction036(void *, unsigned long);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *p, unsigned long long n) {
	return SystemFunction036(p, n);
}
