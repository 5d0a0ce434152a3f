import Glibc

/// What a supervisor arranges for its own process.
package enum OwnProcess {
  /// Lets stdout and stderr go to a file from now on, so that whoever started us sees their end.
  package static func redirectOutput(to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { if descriptor > 2 { close(descriptor) } }
    fflush(nil)
    guard dup2(descriptor, 1) >= 0, dup2(descriptor, 2) >= 0 else {
      throw SystemError("dup2", on: path, code: errno)
    }
  }

  /// Gives this process the name of its program, as tools show it: one that is executed by a descriptor is named
  /// after that.
  package static func takeProgramName() {
    let name = CommandLine.arguments[0].split(separator: "/").last.map(String.init) ?? ""
    let file = open("/proc/self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    defer { close(file) }
    try? FileSystem.write(Array(name.utf8), to: file, path: "/proc/self/comm")
  }

  /// The path of the running executable, to start it again.
  package static var executablePath: String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4097) { buffer in
      let count = readlink("/proc/self/exe", buffer.baseAddress!, 4096)
      guard count > 0 else { return nil }
      buffer[count] = 0
      return String(cString: buffer.baseAddress!)
    }
  }
}
