import Glibc
import PipeSystem
import PipeWire

/// The input that the text of a topology, a scenario or a deployment is read from.
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

  /// The directory that relative paths in the text start from.
  package var directory: String {
    switch self {
    case .file(let path): FileSystem.directory(of: FileSystem.absolute(path))
    case .standardInput: FileSystem.directory(of: FileSystem.absolute("-"))
    }
  }

  /// Returns the path of a file in the same directory.
  func beside(_ name: String) -> String {
    guard case .file(let path) = self, let slash = path.lastIndex(of: "/") else { return name }
    return path[...slash] + name
  }

  /// Reads the whole text.
  package func bytes() throws(TopologyErrors) -> [UInt8] {
    guard case .file(let path) = self else { return try bytes(of: STDIN_FILENO) }
    // Non-blocking, so that a FIFO without a writer is refused at once.
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
      let chunk = try chunk(of: file, atMost: limit + 1 - bytes.count)
      if chunk.isEmpty { break }
      bytes += chunk
    }
    guard bytes.count > limit else { return bytes }
    let isRegular = status.st_mode & S_IFMT == S_IFREG
    throw tooLarge(bytes, size: isRegular ? Int(status.st_size) : nil)
  }

  /// Reads the next chunk, waiting for the writer of a FIFO; empty at the end of the input.
  private func chunk(of file: Int32, atMost limit: Int) throws(TopologyErrors) -> [UInt8] {
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
  private func tooLarge(_ bytes: [UInt8], size: Int?) -> TopologyErrors {
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
    TopologyErrors([Diagnostic(file: name, mark: mark, code: .unreadableFile, message: message)])
  }
}

/// The topology file of the current node, from which its machines resolve relative paths.
public enum TopologyFile {
  /// The environment variable with the absolute path of the topology file.
  package static let variable = "PIPERUNTIME_TOPOLOGY_FILE"

  /// Returns the path of a file that a parameter names.
  ///
  /// A relative name starts from the directory of the topology file. Outside a node, it starts from
  /// the working directory.
  public static func path(of name: String) -> String {
    guard !name.hasPrefix("/"), let file = ProcessEnvironment.current[variable] else {
      return name
    }
    return FileSystem.directory(of: file) + "/" + name
  }
}
