// swift-format-ignore-file
// The C library under its name on Apple's systems, for `tools/check-portable` to compile against.

@_exported import Glibc
