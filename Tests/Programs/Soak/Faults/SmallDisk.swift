import Glibc
import PipeRuntime
import PipeRuntimeTestKit

/// A file system in memory that the soak can fill.
final class SmallDisk: Sendable {
  private let path: String
  private let cleanupProcess: LaunchedProgram

  private static let size = "1g"
  private static let unmountArgument = "--unmount-at-end-of-input"

  /// If the arguments request this, waits until the parent process has ended, and then unmounts the
  /// parent's disk.
  /// - Returns: Whether the arguments request this.
  static func unmountIfRequested(_ arguments: [String]) -> Bool {
    guard arguments.count == 3, arguments[1] == unmountArgument else { return false }
    while getchar() != EOF {}
    umount2(arguments[2], Int32(MNT_DETACH))
    return true
  }

  /// Mounts the disk at a directory.
  /// - Throws: ``SystemError`` if this process has no permission to mount file systems.
  init(at path: String) throws {
    self.path = path
    try FileSystem.makeDirectories(path, mode: 0o700)
    guard Self.mount(path, 0, size: Self.size) else {
      throw SystemError("mount", on: path, code: errno)
    }
    do {
      // If this process crashes, the helper process unmounts the disk.
      cleanupProcess = try LaunchedProgram(
        "/proc/self/exe", [Self.unmountArgument, path], environment: [:])
    } catch {
      umount2(path, Int32(MNT_DETACH))
      throw error
    }
  }

  /// The reason why no disk can be mounted; `nil` if a disk can be mounted.
  static var unavailableReason: String? {
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

  /// Fills the disk, by shrinking it to its used size.
  func fill() throws {
    for _ in 0..<1_000 {
      var status = statvfs()
      guard statvfs(path, &status) == 0 else {
        throw SystemError("statvfs", on: path, code: errno)
      }
      let used = UInt64(status.f_blocks - status.f_bfree) * UInt64(status.f_frsize)
      // A size of 0 would mean no limit.
      if Self.mount(path, Int(MS_REMOUNT), size: "\(max(used, 4096))") { return }
      // Files may have grown since the used size was read, so try again.
      guard errno == EINVAL else { break }
    }
    throw SystemError("mount", on: path, code: errno)
  }

  /// Restores the original size.
  func free() throws {
    guard Self.mount(path, Int(MS_REMOUNT), size: Self.size) else {
      throw SystemError("mount", on: path, code: errno)
    }
  }

  /// Unmounts the disk, and discards its files.
  func unmount() {
    umount2(path, Int32(MNT_DETACH))
    cleanupProcess.signal(.kill)
  }

  /// Unmounts the disk, and keeps a copy of its files in the directory.
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
