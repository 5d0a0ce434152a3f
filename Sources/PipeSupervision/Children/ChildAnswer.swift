import PipeClient
import PipeSystem

/// What a child wrote until it ended, or was ended.
struct ChildAnswer {
  enum Ending {
    case ended, late
    /// It wrote too much.
    case flooded
  }

  let ending: Ending
  let exit: ProcessExit?
  let output: [UInt8]
  private let errors: [UInt8]

  /// Runs a child and reads what it writes; kills it where that takes too long, or is too much.
  /// - Parameter limit: Unit: bytes.
  /// - Throws: ``SpawnError``
  static func read(
    _ command: ChildCommand, within patience: Duration, limit: Int
  ) throws -> ChildAnswer {
    var child = try ChildProcess.spawn(command)
    defer { child.closePipes() }
    let deadline = ContinuousClock.now + patience
    var (output, errors): ([UInt8], [UInt8]) = ([], [])
    let ending = drain(child, until: deadline, limit: limit, &output, &errors)
    if ending != .ended { child.signal(.kill, group: true) }
    return ChildAnswer(ending: ending, exit: child.wait(), output: output, errors: errors)
  }

  /// The beginning of what it wrote on stderr; `nil` where that is nothing.
  var problem: String? {
    let text = String(decoding: errors.prefix(2_000), as: UTF8.self).trimmed
    return text.isEmpty ? nil : text
  }

  /// Reads both pipes until both are closed.
  private static func drain(
    _ child: ChildProcess, until deadline: ContinuousClock.Instant, limit: Int,
    _ output: inout [UInt8], _ errors: inout [UInt8]
  ) -> Ending {
    var open: Set<Int32> = [child.output, child.error]
    while !open.isEmpty {
      guard ContinuousClock.now < deadline else { return .late }
      for (descriptor, bytes) in PipeReader.read(&open, until: deadline) {
        if descriptor == child.output { output += bytes } else { errors += bytes }
      }
      if output.count + errors.count > limit { return .flooded }
    }
    return .ended
  }
}

extension String {
  fileprivate var trimmed: String {
    let isSpace: (Character) -> Bool = { $0.isWhitespace }
    return String(drop(while: isSpace).reversed().drop(while: isSpace).reversed())
  }
}
