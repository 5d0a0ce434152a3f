import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision

/// Finds processes of nodes that were ended by a signal that no part of the soak has sent.
///
/// The caller must report each signal before sending it, and must add each line of the nodes' logs.
package struct UnexpectedExitChecker: Sendable {
  /// A description of each unexpected end, and of each crash that a process has logged.
  package private(set) var violations: [String] = []

  /// The latest process of a node that the log mentions.
  private struct Process {
    var pid: Int32
    /// Whether the log contains the output of the process and the orchestrator's actions on it.
    var isLogged = true
    /// Whether the log says that the process, or its orchestrator, kills the process.
    var isKilled = false
    /// Whether the log says that the orchestrator stops the process.
    var isEnded = false
  }

  private struct SentSignal: Hashable {
    var pid: Int32
    var signal: Int32
  }

  private var sentSignals: Set<SentSignal> = []
  /// For each process id, the end that needs an explanation. A later line about another node in the
  /// same process may explain it.
  private var suspicions: [Int32: String] = [:]
  private var processes: [String: Process] = [:]
  private static let signalsByExitText: [String: Int32] = Dictionary(
    uniqueKeysWithValues: (1...64).map {
      ("\(NodeReport.exited(.signalled(number: $0)))", $0)
    })
  /// The messages that the Swift runtime or libzmq prints before it ends a process.
  private static let crashes = ["Fatal error", "*** Program crashed", "Assertion failed"]

  /// Whether any process may be killed without a log line, by its lease, its host or Slurm.
  private let toleratesKills: Bool

  package init(toleratesKills: Bool = false) { self.toleratesKills = toleratesKills }

  /// Records that a signal is about to be sent.
  package mutating func note(_ signal: Signal, to node: String, pid: Int32) {
    sentSignals.insert(SentSignal(pid: pid, signal: signal.number))
  }

  /// Adds a line of a node's log.
  package mutating func add(_ entry: LogEntry) {
    switch entry.stream {
    case .note: addNote(entry.text, of: entry.node)
    case .err:
      if entry.text.hasPrefix("failpoint "), entry.text.contains(": crash (") {
        markKilled(entry.node)
      }
      guard Self.crashes.contains(where: { entry.text.contains($0) }) else { return }
      violations.append("node '\(entry.node)' wrote: \(entry.text)")
    case .out: break
    }
  }

  private mutating func addNote(_ text: String, of node: String) {
    if let pid = Self.number(in: text, after: "spawned, pid ") {
      processes[node] = Process(pid: pid)
    } else if let pid = Self.number(in: text, after: "still running as pid ") {
      processes[node] = Process(pid: pid, isLogged: false)
    } else if text.hasPrefix("adopted (") {
      processes[node]?.isLogged = true
    } else if text.hasPrefix("killed: ") {
      markKilled(node)
    } else if text == "\(NodeReport.stopping)" {
      processes[node]?.isEnded = true
    } else if text.hasPrefix("not adopted: ") {
      processes[node]?.isEnded = true
      markKilled(node)
    } else if text.hasSuffix(" log lines lost here") {
      processes[node]?.isLogged = false
    } else if let signal = Self.signalsByExitText[text] {
      check(signal, processes[node], of: node)
    }
  }

  /// Records that a process is killed. This concerns all nodes in the process.
  private mutating func markKilled(_ node: String) {
    guard let pid = processes[node]?.pid else { return }
    for (other, process) in processes where process.pid == pid {
      processes[other]?.isKilled = true
    }
    // Lines with the same time are in no particular order, so the end may have been added before.
    if let text = suspicions.removeValue(forKey: pid) { violations.removeAll { $0 == text } }
  }

  private static func number(in text: String, after prefix: String) -> Int32? {
    guard text.hasPrefix(prefix) else { return nil }
    return Int32(text.dropFirst(prefix.count).prefix { $0.isNumber })
  }

  private mutating func check(_ signal: Int32, _ process: Process?, of node: String) {
    if toleratesKills, signal == SIGKILL || signal == SIGTERM { return }
    // If nothing was logged about the process, it is unknown whether the orchestrator ended it.
    let mayHaveBeenKilled = process.map { $0.isKilled || !$0.isLogged } ?? true
    let mayHaveBeenEnded = process.map { $0.isEnded || !$0.isLogged } ?? true
    if signal == SIGKILL && mayHaveBeenKilled || signal == SIGTERM && mayHaveBeenEnded { return }
    reportViolation(signal, node, process?.pid)
  }

  /// Adds the end of a process that had no orchestrator for a while. The system reports this end.
  package mutating func add(_ exit: ProcessExit, of node: String, pid: Int32) {
    guard case .signalled(let signal) = exit, signal != SIGKILL, signal != SIGTERM else { return }
    reportViolation(signal, node, pid)
  }

  private mutating func reportViolation(_ signal: Int32, _ node: String, _ pid: Int32?) {
    if let pid, sentSignals.contains(SentSignal(pid: pid, signal: signal)) { return }
    let process = pid.map { "process \($0)" } ?? "a process"
    let text =
      "\(process) of node '\(node)' ended by \(Signal(number: signal)), which nobody had sent"
    if let pid, signal == SIGKILL { suspicions[pid] = text }
    // The system and the log may report the same end.
    if !violations.contains(text) { violations.append(text) }
  }
}
