// Go programs call only this function of bcryptprimitives.dll, for random bytes. Wine 8 lacks the DLL.
unsigned char __stdcall SystemFunction036(void *, unsigned long);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *p, unsigned long long n) {
	return SystemFunction036(p, n);
}
