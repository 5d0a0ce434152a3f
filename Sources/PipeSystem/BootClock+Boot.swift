import PipeSupport

extension BootClock {
  /// Names the present run of the system.
  package static let boot: String = {
    let text = FileSystem.text(of: "/proc/sys/kernel/random/boot_id") ?? ""
    return String(text.prefix { !$0.isNewline })
  }()
}
