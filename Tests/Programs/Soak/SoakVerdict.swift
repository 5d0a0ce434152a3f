import Glibc
import PipeRuntime

/// The verdict of a soak.
struct SoakVerdict {
  let options: SoakOptions
  let rounds: Int
  let faults: Int
  let total: SoakOutcome

  /// Prints the verdict.
  /// - Parameter problems: The problems other than violations.
  /// - Returns: Whether there were neither problems nor violations.
  func printReport(with problems: [String], took time: Duration) -> Bool {
    printLine(
      "\(rounds) topologies, \(faults) faults, \(total.arrived) numbers arrived: "
        + "\(total.lost) lost, \(total.repeated) repeated, \(total.reordered) reordered; "
        + time.shortText)
    let count = total.violations.count + problems.count
    guard count > 0 else {
      printLine("verdict: exact")
      return true
    }
    for problem in problems { printLine(problem) }
    printLine("verdict: VIOLATED, \(count.counted("violation")); repeat with: soak \(options.text)")
    return false
  }
}

/// Prints a line, and flushes standard output, which is buffered if it is a pipe.
func printLine(_ line: String) {
  print(line)
  fflush(nil)
}
