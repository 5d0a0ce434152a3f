import Glibc
import PipeRuntime
import PipeRuntimeTestKit

/// A file system of its own, in memory, which is full when it is told to be.
final class SmallDisk: Sendable {
  private let path: String
  private let guardian: LaunchedProgram

  private static let size = "1g"
  private static let guardArgument = "--unmount-at-end-of-input"

  /// Unmounts the disk of the process that started this one, when that has ended.
  /// - Returns: Whether the arguments ask for that.
  static func guardIfAsked(_ arguments: [String]) -> Bool {
    guard arguments.count == 3, arguments[1] == guardArgument else { return false }
    while getchar() != EOF {}
    umount2(arguments[2], Int32(MNT_DETACH))
    return true
  }

  /// Mounts it in place of a directory.
  /// - Throws: ``SystemError`` where this process may not mount anything.
  init(at path: String) throws {
    self.path = path
    try FileSystem.makeDirectories(path, mode: 0o700)
    guard Self.mount(path, 0, size: Self.size) else {
      throw SystemError("mount", on: path, code: errno)
    }
    do {
      // Where this process crashes, the mount goes, too.
      guardian = try LaunchedProgram(
        "/proc/self/exe", [Self.guardArgument, path], environment: [:])
    } catch {
      umount2(path, Int32(MNT_DETACH))
      throw error
    }
  }

  /// Why there can be none, or `nil`.
  static var obstacle: String? {
    do {
      let directory = try TestDirectory()
      defer { directory.remove() }
      let disk = try SmallDisk(at: directory.path + "/disk")
      defer { disk.unmount() }
      try disk.fill()
      try disk.free()
      return nil
    } catch {
      return "\(error)"
    }
  }

  private static func mount(_ path: String, _ flags: Int, size: String) -> Bool {
    Glibc.mount("soak", path, "tmpfs", UInt(flags), "size=\(size)") == 0
  }

  /// Leaves it no space but what is taken.
  func fill() throws {
    for _ in 0..<1_000 {
      var status = statvfs()
      guard statvfs(path, &status) == 0 else {
        throw SystemError("statvfs", on: path, code: errno)
      }
      let used = UInt64(status.f_blocks - status.f_bfree) * UInt64(status.f_frsize)
      // A size of 0 is none.
      if Self.mount(path, Int(MS_REMOUNT), size: "\(max(used, 4096))") { return }
      // More was taken meanwhile.
      guard errno == EINVAL else { break }
    }
    throw SystemError("mount", on: path, code: errno)
  }

  /// Gives it space again.
  func free() throws {
    guard Self.mount(path, Int(MS_REMOUNT), size: Self.size) else {
      throw SystemError("mount", on: path, code: errno)
    }
  }

  /// Takes it away with all that is in it.
  func unmount() {
    umount2(path, Int32(MNT_DETACH))
    guardian.signal(.kill)
  }

  /// Takes it away, and leaves what is in it as files of the directory's.
  func unmountKeepingFiles() async {
    let copy = path + ".kept"
    let copying = try? LaunchedProgram(
      "/bin/cp", ["-a", path, copy], environment: ["PATH": "/usr/bin:/bin"])
    _ = try? await copying?.waitForExit(within: .seconds(60))
    unmount()
    rmdir(path)
    rename(copy, path)
  }
}
