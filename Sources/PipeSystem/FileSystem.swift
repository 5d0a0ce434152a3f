import CProcess
import Glibc

/// File operations whose errors name the file.
package enum FileSystem {
  /// Creates a directory and its missing parent directories. Does nothing if the directory exists.
  package static func makeDirectories(_ path: String, mode: mode_t = 0o755) throws {
    if mkdir(path, mode) == 0 { return }
    switch errno {
    case EEXIST:
      guard isDirectory(path) else { throw SystemError("mkdir", on: path, code: ENOTDIR) }
    case ENOENT:
      let parent = parentDirectory(of: path)
      guard parent != path else { throw SystemError("mkdir", on: path, code: ENOENT) }
      try makeDirectories(parent, mode: mode)
      guard mkdir(path, mode) == 0 || errno == EEXIST else {
        throw SystemError("mkdir", on: path, code: errno)
      }
    default:
      throw SystemError("mkdir", on: path, code: errno)
    }
  }

  /// Creates a directory whose name is `prefix` with six random characters appended. Returns the
  /// path of the directory.
  package static func makeTemporaryDirectory(_ prefix: String) throws(SystemError) -> String {
    var template = Array((prefix + "XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else {
      throw SystemError("mkdtemp", on: prefix + "XXXXXX", code: errno)
    }
    return String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  package static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  package static func isDirectory(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Returns the names in a directory, sorted. Returns an empty array if the directory cannot be
  /// read.
  package static func entryNames(of path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var entryNames: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != ".", name != ".." { entryNames.append(name) }
    }
    return entryNames.sorted()
  }

  /// Reads an open file from its current position up to its end, but at most `limit` bytes.
  package static func read(_ descriptor: Int32, limit: Int = .max) throws -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < limit {
      let wanted = min(65536, limit - bytes.count)
      var count = 0
      let chunk = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, initialized in
        repeat {
          count = Glibc.read(descriptor, buffer.baseAddress, wanted)
        } while count < 0 && errno == EINTR
        initialized = max(count, 0)
      }
      if count < 0, errno != EAGAIN { throw SystemError("read", code: errno) }
      if count <= 0 { break }
      if bytes.isEmpty { bytes = chunk } else { bytes += chunk }
    }
    return bytes
  }

  /// Returns the contents of a file, up to `limit` bytes; `nil` if the file cannot be read.
  package static func contents(of path: String, limit: Int = 1 << 20) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return try? read(descriptor, limit: limit)
  }

  /// Returns the contents of a file as text, up to 1 MiB; `nil` if the file cannot be read.
  package static func text(of path: String) -> String? {
    contents(of: path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Writes all of the bytes at the current position of an open file. Errors name the file by
  /// `path`.
  package static func write(
    _ bytes: some Collection<UInt8>, to descriptor: Int32, path: String
  ) throws(SystemError) {
    let (_, problem) = write(Array(bytes), to: descriptor)
    if let problem { throw SystemError("write", on: path, code: problem) }
  }

  /// Writes bytes until all are written or an error occurs.
  /// - Returns: The number of bytes written, and the errno if not all bytes were written.
  package static func write(
    _ bytes: [UInt8], to descriptor: Int32
  ) -> (byteCount: Int, errorCode: Int32?) {
    bytes.withUnsafeBytes { bytes in
      var done = 0
      while done < bytes.count {
        let rest = bytes[done...]
        let count = Glibc.write(
          descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return (done, count < 0 ? errno : ENOSPC) }
        done += count
      }
      return (done, nil)
    }
  }

  /// Replaces the contents of a file durably and atomically. After a power failure, the file has
  /// either the old or the new contents.
  package static func replace(_ path: String, with bytes: some Collection<UInt8>) throws {
    let new = path + ".new"
    let descriptor = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: new, code: errno) }
    do {
      defer { close(descriptor) }
      try write(bytes, to: descriptor, path: new)
      guard fsync(descriptor) == 0 else { throw SystemError("fsync", on: new, code: errno) }
    }
    guard rename(new, path) == 0 else { throw SystemError("rename", on: path, code: errno) }
    let directory = open(parentDirectory(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { return }
    fsync(directory)
    close(directory)
  }

  /// Returns the size of a file; 0 if there is no file. Unit: bytes.
  package static func byteCount(of path: String) -> Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  /// Waits until the names in a directory are on the disk.
  package static func synchronizeDirectory(_ path: String) throws(SystemError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw SystemError("fsync", on: path, code: errno) }
  }

  /// Returns a text that identifies the version of a file: the text changes whenever the file is
  /// replaced or rewritten. Returns an empty text if there is no file.
  package static func version(of path: String) -> String {
    var status = stat()
    return stat(path, &status) == 0 ? version(status) : ""
  }

  /// Returns the version of an open file, in the same format as for a path. Returns an empty text
  /// if the file cannot be examined.
  package static func version(of descriptor: Int32) -> String {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? version(status) : ""
  }

  private static func version(_ status: stat) -> String {
    let time = status.st_mtim
    return "\(status.st_ino)-\(status.st_size)-\(time.tv_sec).\(time.tv_nsec)"
  }

  /// Returns the directory part of a path, or `.` if the path contains no slash.
  package static func parentDirectory(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// Resolves a relative path against a directory. Returns an absolute path unchanged.
  package static func absolutePath(_ path: String, from directory: String) -> String {
    path.hasPrefix("/") || directory == "." ? path : directory + "/" + path
  }

  /// Returns a path as an absolute path. A relative path is resolved against the working directory.
  package static func absolutePath(_ path: String) -> String {
    if path.hasPrefix("/") { return path }
    guard let directory = getcwd(nil, 0) else { return path }
    defer { free(directory) }
    return String(cString: directory) + "/" + path
  }

  /// Returns the absolute path without symbolic links, `.` and `..`; `nil` if there is no such
  /// file.
  package static func resolvedPath(_ path: String) -> String? {
    guard let resolved = realpath(path, nil) else { return nil }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  /// Removes a file, or a directory with its contents. Does not follow symbolic links.
  package static func removeTree(_ path: String) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    if status.st_mode & S_IFMT == S_IFDIR {
      for entry in entryNames(of: path) { removeTree(path + "/" + entry) }
      rmdir(path)
    } else {
      unlink(path)
    }
  }
}

extension FileSystem {
  /// Copies the contents of an open file into an empty file. On a file system with reflinks, the
  /// two files share their blocks.
  /// - Parameter path: The path of the copy, for the error.
  /// - Returns: A hash of the contents.
  package static func copy(
    _ source: Int32, to copy: Int32, path: String
  ) throws(SystemError) -> UInt64 {
    var hash: UInt64 = 0
    let code = pr_copy_file(source, copy, &hash)
    guard code == 0 else { throw SystemError("write", on: path, code: code) }
    return hash
  }

  /// Returns the hash of an open file's contents.
  package static func contentHash(of source: Int32, path: String) throws(SystemError) -> UInt64 {
    var hash: UInt64 = 0
    let code = pr_copy_file(source, -1, &hash)
    guard code == 0 else { throw SystemError("read", on: path, code: code) }
    return hash
  }

  /// Returns the time at which an open file was created; 0 if the file system does not record that
  /// time. Unit: nanoseconds since 1970.
  package static func birthTime(of descriptor: Int32) -> Int64 {
    pr_birth_time(descriptor)
  }
}

/// The identity of the file to which a path resolves.
package struct FileIdentity: Hashable {
  private let device: UInt64
  private let inode: UInt64
  /// Whether the file is a regular file, and not, for example, a directory, a device or a pipe.
  package let isRegularFile: Bool

  /// A text that identifies the file to other processes on the same host.
  package var text: String { "\(device):\(inode)" }

  /// Creates the identity of the file at a path; `nil` if there is no file.
  package init?(_ path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    self.init(status)
  }

  /// Creates the identity of an open file.
  package init?(descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }

  private init(_ status: stat) {
    device = UInt64(status.st_dev)
    inode = UInt64(status.st_ino)
    isRegularFile = status.st_mode & S_IFMT == S_IFREG
  }
}
