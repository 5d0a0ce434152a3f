import Glibc
import PipeSupport

extension BootClock {
  /// Names the present run of the system.
  package static let boot: String = {
    let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    let bytes = (try? FileSystem.read(descriptor, limit: 64)) ?? []
    return String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
  }()
}
