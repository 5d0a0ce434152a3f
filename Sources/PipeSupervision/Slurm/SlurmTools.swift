import Glibc
import PipeSystem

/// The programs of Slurm's, and of the system's, that are called.
struct SlurmTools: Sendable {
  enum Tool: String, CaseIterable {
    case srun, salloc, sbatch, scontrol, squeue, scancel, sattach

    /// Whether nothing works without it: without `sattach`, logs of processes that were taken over end.
    fileprivate var isNeeded: Bool { self != .sattach }
  }

  private let paths: [Tool: String]
  private let environment: [String: String]
  /// The longest that an answer is waited for, where it is waited for.
  private static let patience: Duration = .seconds(15)
  private static let outputLimit = 16 << 20

  /// - Throws: ``SlurmError`` where one is not there.
  init(_ environment: [String: String]) throws(SlurmError) {
    self.environment = environment
    var paths: [Tool: String] = [:]
    let folders = (environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
    for tool in Tool.allCases {
      let path = folders.map { $0 + "/" + tool.rawValue }.first { access($0, X_OK) == 0 }
      guard path != nil || !tool.isNeeded else { throw .noTool(tool.rawValue) }
      paths[tool] = path
    }
    self.paths = paths
  }

  func path(_ tool: Tool) -> String { paths[tool] ?? tool.rawValue }

  /// Runs one and waits for its answer.
  /// - Parameter input: What it reads.
  /// - Throws: ``SlurmError``
  func ask(_ tool: Tool, _ arguments: [String], input: String = "") throws(SlurmError) -> String {
    let text = ([tool.rawValue] + arguments).joined(separator: " ")
    let script = #"input=$1; shift; printf %s "$input" | exec "$@""#
    do {
      let answer = try ChildAnswer.read(
        ChildCommand(
          path: "/bin/sh", arguments: ["-c", script, "sh", input, path(tool)] + arguments,
          environment: environment),
        within: Self.patience, limit: Self.outputLimit)
      guard answer.exit?.isSuccess == true else {
        throw SlurmError.failed(
          command: text, reason: answer.problem ?? "\(answer.exit.map { "\($0)" } ?? "?")")
      }
      return String(decoding: answer.output, as: UTF8.self)
    } catch let error as SlurmError {
      throw error
    } catch {
      throw .failed(command: text, reason: "\(error)")
    }
  }
}
