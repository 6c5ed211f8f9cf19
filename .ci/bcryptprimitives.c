/* For tests under a Wine that has no bcryptprimitives.dll: the one function that programs of Rust's ask of it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    while (length > 0) {
        ULONG piece = length > 65536 ? 65536 : (ULONG)length;
        if (!SystemFunction036(data, piece)) return FALSE;
        data += piece;
        length -= piece;
    }
    return TRUE;
}
