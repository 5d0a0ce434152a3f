import Glibc
import PipeSystem
import PipeWire

/// The input from which a topology, a scenario or a deployment is read.
package enum TopologyInput: Hashable, Sendable {
  case file(String)
  case standardInput

  /// Makes an input from a command-line argument; `-` is standard input.
  package init(argument: String) {
    self = argument == "-" ? .standardInput : .file(argument)
  }

  /// The input's name in diagnostics.
  package var name: String {
    switch self {
    case .file(let path): path
    case .standardInput: "<stdin>"
    }
  }

  /// The directory to which paths in the text are relative.
  package var directory: String {
    switch self {
    case .file(let path): FileSystem.parentDirectory(of: FileSystem.absolutePath(path))
    case .standardInput: FileSystem.parentDirectory(of: FileSystem.absolutePath("-"))
    }
  }

  /// Returns the path of another file in the directory of the input.
  func pathBeside(_ name: String) -> String {
    guard case .file(let path) = self, let slash = path.lastIndex(of: "/") else { return name }
    return path[...slash] + name
  }

  /// Reads the whole text.
  package func bytes() throws(TopologyErrors) -> [UInt8] {
    guard case .file(let path) = self else { return try bytes(of: STDIN_FILENO) }
    // With `O_NONBLOCK`, opening a FIFO does not block if no process has opened it for writing.
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else {
      switch errno {
      case ENOENT, ENOTDIR: throw failure("no such file; check the path")
      case EACCES: throw failure("permission denied; check the permissions of the file")
      case let code: throw failure("cannot open the file: \(SystemError.text(of: code))")
      }
    }
    defer { close(file) }
    return try bytes(of: file)
  }

  private func bytes(of file: Int32) throws(TopologyErrors) -> [UInt8] {
    var status = stat()
    guard fstat(file, &status) == 0, status.st_mode & S_IFMT != S_IFDIR else {
      throw failure("is a directory; name a file in the directory")
    }
    let limit = TopologyReader.byteLimit
    var bytes: [UInt8] = []
    while bytes.count <= limit {
      let chunk = try readChunk(of: file, atMost: limit + 1 - bytes.count)
      if chunk.isEmpty { break }
      bytes += chunk
    }
    guard bytes.count > limit else { return bytes }
    let isRegular = status.st_mode & S_IFMT == S_IFREG
    throw tooLargeError(bytes, size: isRegular ? Int(status.st_size) : nil)
  }

  /// Reads the next chunk; returns an empty chunk at the end of the input.
  ///
  /// For a FIFO, waits until a process has written data.
  private func readChunk(of file: Int32, atMost limit: Int) throws(TopologyErrors) -> [UInt8] {
    var count = 0
    var code: Int32 = 0
    repeat {
      if code == EAGAIN {
        var item = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
        poll(&item, 1, -1)
      }
      let chunk = [UInt8](unsafeUninitializedCapacity: min(65_536, limit)) { buffer, initialized in
        count = Glibc.read(file, buffer.baseAddress, buffer.count)
        code = errno
        initialized = max(0, count)
      }
      if count >= 0 { return chunk }
    } while code == EINTR || code == EAGAIN
    throw failure("cannot read the file: \(SystemError.text(of: code))")
  }

  /// - Parameter size: The size of the whole text, if known. Unit: bytes.
  private func tooLargeError(_ bytes: [UInt8], size: Int?) -> TopologyErrors {
    let limit = TopologyReader.byteLimit
    let mark = TextPosition(ofByte: limit, in: bytes)
    let whole = size.map { "has \($0) bytes" } ?? "has more than \(limit) bytes"
    let limitLocation = mark.column > limit / 2 ? "in this line alone" : "here"
    return failure(
      "file too large: the file \(whole), and exceeds the limit of \(limit) bytes \(limitLocation); remove "
        + "unused parts, or keep large data in a separate file, and name that file in a parameter",
      at: mark)
  }

  private func failure(_ message: String, at mark: TextPosition = .unknown) -> TopologyErrors {
    TopologyErrors([Diagnostic(file: name, position: mark, code: .unreadableFile, message: message)]
    )
  }
}

/// The topology file of the current node. Machines resolve relative paths against the directory of
/// this file.
public enum TopologyFile {
  /// The environment variable with the absolute path of the topology file.
  package static let variable = "PIPERUNTIME_TOPOLOGY_FILE"

  /// Returns the path of a file that a parameter names.
  ///
  /// A relative name is resolved against the directory of the topology file. In a process that is
  /// not a node, the name is resolved against the working directory.
  public static func path(of name: String) -> String {
    guard !name.hasPrefix("/"), let file = ProcessEnvironment.current[variable] else {
      return name
    }
    return FileSystem.parentDirectory(of: file) + "/" + name
  }
}
