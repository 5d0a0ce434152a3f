import Glibc
import PipeSystem

/// A listening socket in the file system. Only the owner may connect to it.
struct SocketFile: Sendable {
  private let path: String
  private let device: dev_t
  private let number: ino_t

  /// Binds a socket to a path and starts to listen.
  init(_ path: String, of descriptor: Int32, backlog: Int32) throws(WebListenerError) {
    guard var address = Self.address(of: path) else {
      throw .pathTooLong(path, limit: Self.pathByteCount)
    }
    let folder = FileSystem.parentDirectory(of: path)
    var status = stat()
    guard stat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
      throw .noSuchDirectory(folder)
    }
    // If another user owned the folder, that user could replace the socket, and then receive the
    // token.
    guard [0, geteuid()].contains(status.st_uid) else {
      throw .directoryOwnedByOtherUser(folder, owner: status.st_uid)
    }
    guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 || status.st_mode & S_ISVTX != 0 else {
      throw .directoryWritableByOthers(folder)
    }
    // The system creates the file with the mode of the descriptor.
    fchmod(descriptor, 0o600)
    // Another process that checks for stale sockets would remove a socket that is bound, but does
    // not listen yet. The lock prevents this.
    let lock = Self.lock(folder)
    defer { if lock >= 0 { close(lock) } }
    try Self.removeStaleSocket(path, &address)
    guard Self.call(bind, descriptor, &address) == 0 else {
      switch errno {
      case EADDRINUSE: throw .pathInUse(path)
      case EACCES, EPERM, EROFS: throw .directoryNotWritable(folder)
      default: throw .failed(SystemError("bind", on: path, code: errno))
      }
    }
    guard listen(descriptor, backlog) == 0 else {
      throw .failed(SystemError("listen", on: path, code: errno))
    }
    guard lstat(path, &status) == 0 else {
      throw .failed(SystemError("lstat", on: path, code: errno))
    }
    self.path = FileSystem.absolutePath(path)
    device = status.st_dev
    number = status.st_ino
  }

  /// Removes the file, unless another process has replaced the file.
  func remove() {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_dev == device, status.st_ino == number else {
      return
    }
    unlink(path)
  }

  /// The maximum length of a path, without the terminating zero. Unit: bytes.
  private static let pathByteCount = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private static func address(of path: String) -> sockaddr_un? {
    guard path.utf8.count <= pathByteCount else { return nil }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return address
  }

  /// Locks the folder, so that only one process at a time checks for stale sockets and binds a
  /// socket. If the folder cannot be locked, continues without the lock.
  private static func lock(_ folder: String) -> Int32 {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return -1 }
    for _ in 0..<200 {
      guard flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK else { break }
      usleep(10_000)
    }
    return descriptor
  }

  /// Removes a socket at which no process listens.
  private static func removeStaleSocket(
    _ path: String, _ address: inout sockaddr_un
  ) throws(WebListenerError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path) }
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let probe = socket(AF_UNIX, kind, 0)
    guard probe >= 0 else { throw .failed(SystemError("socket", on: path, code: errno)) }
    defer { close(probe) }
    // Any other result means that the socket is in use: for example, its queue is full, or it
    // belongs to another user.
    guard call(connect, probe, &address) != 0, errno == ECONNREFUSED else { throw .pathInUse(path) }
    guard unlink(path) == 0 || errno == ENOENT else {
      throw .failed(SystemError("unlink", on: path, code: errno))
    }
  }

  private static func call(
    _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ descriptor: Int32,
    _ address: inout sockaddr_un
  ) -> Int32 {
    withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
