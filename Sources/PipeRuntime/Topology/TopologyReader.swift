import Glibc

/// Reads topology files: YAML, of which JSON is a subset.
///
/// Checks all that the file tells by itself; ``TopologyChecker`` checks the rest against the
/// programs. Source: DESIGN.md 5.
public enum TopologyReader {
  /// A topology, and where its parts stand.
  public typealias Result = (topology: Topology, source: SourceMap)

  /// The largest file that is read. Unit: bytes.
  public static let byteLimit = 1 << 20

  /// Reads a file.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try read(text: bytes(of: path), file: path)
  }

  /// Reads a text.
  /// - Parameter file: What diagnostics call it.
  /// - Throws: All errors of the text, in its order.
  public static func read(
    text: some Sequence<UInt8>, file: String
  ) throws(TopologyErrors) -> Result {
    let examined = try examine(text: text, file: file)
    guard !examined.diagnostics.hasErrors else { throw TopologyErrors(examined.diagnostics) }
    return (examined.topology, examined.source)
  }

  /// Reads what can be read of a file, for checks that can be made all the same.
  ///
  /// Where a pipe is malformed there are no pipes, so that the others keep their places.
  /// - Throws: All errors of a file that no topology can be made of.
  package static func examine(
    path: String
  ) throws(TopologyErrors) -> (topology: Topology, source: SourceMap, diagnostics: [Diagnostic]) {
    try examine(text: bytes(of: path), file: path)
  }

  private static func examine(
    text: some Sequence<UInt8>, file: String
  ) throws(TopologyErrors) -> (topology: Topology, source: SourceMap, diagnostics: [Diagnostic]) {
    let root: YAMLNode?
    do {
      root = try YAMLDocument.parse(Array(text))
    } catch {
      throw TopologyErrors([
        Diagnostic(file: file, mark: error.mark, code: error.code, message: error.message)
      ])
    }
    var reading = TopologyReading(file: file)
    guard let root else {
      throw TopologyErrors([
        Diagnostic(
          file: file, mark: SourceMark(line: 1, column: 1), code: .missingKey,
          message: "the file is empty; a topology starts with 'topology: NAME'")
      ])
    }
    guard let topology = reading.topology(root) else { throw TopologyErrors(reading.diagnostics) }
    return (topology, reading.source, reading.diagnostics)
  }

  /// Validates a topology that was built in code; its diagnostics point into its YAML text.
  /// - Throws: All errors of the topology.
  public static func read(_ topology: Topology) throws(TopologyErrors) -> Result {
    try read(text: topology.yaml.utf8, file: "topology '\(topology.name)'")
  }

  private static func bytes(of path: String) throws(TopologyErrors) -> [UInt8] {
    func failure(_ message: String) -> TopologyErrors {
      TopologyErrors([
        Diagnostic(file: path, mark: .unknown, code: .unreadableFile, message: message)
      ])
    }
    // Not blocking, so that a FIFO without a writer is refused and not waited for.
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else {
      switch errno {
      case ENOENT, ENOTDIR: throw failure("there is no such file; check the path")
      case EACCES: throw failure("the file may not be read; check its permissions")
      case let code: throw failure("the file cannot be opened: \(String(cString: strerror(code)))")
      }
    }
    defer { close(file) }
    var status = stat()
    guard fstat(file, &status) == 0, status.st_mode & S_IFMT != S_IFDIR else {
      throw failure("this is a directory; name a topology file in it")
    }
    var bytes: [UInt8] = []
    while bytes.count <= byteLimit {
      let wanted = 64 * 1024
      var count = 0
      var code: Int32 = 0
      let chunk = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, initialized in
        repeat {
          count = Glibc.read(file, buffer.baseAddress, wanted)
          code = errno
        } while count < 0 && code == EINTR
        initialized = max(0, count)
      }
      if count < 0 { throw failure("the file cannot be read: \(String(cString: strerror(code)))") }
      if count == 0 { return bytes }
      bytes += chunk
    }
    throw failure("the file is larger than \(byteLimit) bytes; a topology is a short text")
  }
}
