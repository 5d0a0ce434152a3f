import Glibc
import PipeDiagrams
import PipeRuntime
import PipeSupervision

/// Draws graphs with Graphviz. If Graphviz is missing or too slow, uses the built-in drawing
/// instead.
enum Graphviz {
  /// The maximum time for one picture.
  private static let timeout: Duration = .seconds(2)
  /// The maximum size of a picture. Unit: bytes.
  private static let byteLimit = 64 << 20

  /// Draws a picture with Graphviz in full quality.
  ///
  /// If that takes too long, Graphviz draws the picture in a plain style. If Graphviz is missing or
  /// fails, the built-in drawing is used.
  /// - Parameter note: Called with the reason if the picture does not have full quality.
  static func svg(_ graph: Graph, note: (String) -> Void) -> String {
    guard let program else {
      note(
        "note: Graphviz is not installed, using the built-in drawing; install Graphviz with "
          + "'apt-get install graphviz'")
      return GraphFormat.svg.text(graph)
    }
    let fullQualityOutcome = draw(DotText(graph).text, program)
    if case .drawn(let text) = fullQualityOutcome { return text }
    if case .timedOut = fullQualityOutcome,
      case .drawn(let text) = draw(DotText(graph, isPlain: true).text, program)
    {
      note(
        "note: using a simple layout: with frames and curved lines, Graphviz takes longer "
          + "than 2 s")
      return text
    }
    note("note: using the built-in drawing: \(fullQualityOutcome.reason)")
    return GraphFormat.svg.text(graph)
  }

  private enum Outcome {
    case drawn(String), timedOut, failed(String)

    var reason: String {
      switch self {
      case .drawn: "drawn"
      case .timedOut: "Graphviz takes longer than 2 s"
      case .failed(let reason): reason
      }
    }
  }

  /// The path of the `dot` program in `PATH`.
  private static var program: String? {
    (ProcessEnvironment.current["PATH"] ?? "").split(separator: ":").map { "\($0)/dot" }
      .first { access($0, X_OK) == 0 && !FileSystem.isDirectory($0) }
  }

  private static func draw(_ text: String, _ program: String) -> Outcome {
    let folder = ProcessEnvironment.current["TMPDIR"] ?? "/tmp"
    var name = Array("\(folder)/graph.XXXXXX".utf8CString)
    let input = mkstemp(&name)
    guard input >= 0 else {
      return .failed("cannot create a file in '\(folder)': \(SystemError.text(of: errno))")
    }
    defer { close(input) }
    _ = fcntl(input, F_SETFD, FD_CLOEXEC)
    // The file is removed while it is open, so that no file remains if this process is killed.
    unlink(name)
    guard write(Array(text.utf8), to: input), lseek(input, 0, SEEK_SET) == 0 else {
      return .failed("cannot write a file in '\(folder)': \(SystemError.text(of: errno))")
    }
    var child: ChildProcess
    do {
      child = try ChildProcess.spawn(
        ChildCommand(
          path: program, arguments: ["-Tsvg"], environment: ProcessEnvironment.current, input: input
        ))
    } catch {
      return .failed("\(error)")
    }
    defer { child.closePipes() }
    let deadline = ContinuousClock.now + timeout
    var openDescriptors: Set<Int32> = [child.outputDescriptor, child.errorDescriptor]
    var output: [UInt8] = []
    var errors: [UInt8] = []
    while !openDescriptors.isEmpty, ContinuousClock.now < deadline, output.count < byteLimit {
      for (descriptor, bytes) in PipeReader.readAvailable(&openDescriptors, until: deadline) {
        if descriptor == child.outputDescriptor {
          output += bytes
        } else {
          errors = (errors + bytes).suffix(2_000)
        }
      }
    }
    guard openDescriptors.isEmpty else {
      child.signal(.kill, group: true)
      child.wait()
      return output.count < byteLimit ? .timedOut : .failed("the picture is too large")
    }
    guard child.wait()?.isSuccess == true, !output.isEmpty else {
      let errorLine = String(decoding: errors, as: UTF8.self).split(separator: "\n").first
      return .failed("'\(program)' failed\(errorLine.map { ": \($0.printable)" } ?? "")")
    }
    return .drawn(String(decoding: output, as: UTF8.self))
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var remaining = bytes[...]
    while !remaining.isEmpty {
      let count = remaining.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress!, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      remaining = remaining.dropFirst(count)
    }
    return true
  }
}
