import Glibc
import PipeRuntime

/// What a soak ends with.
struct SoakVerdict {
  let options: SoakOptions
  let rounds: Int
  let faults: Int
  let total: SoakOutcome

  /// Tells it.
  /// - Parameter problems: What is wrong besides the violations.
  /// - Returns: Whether everything was as it should be.
  func tell(with problems: [String], took time: Duration) -> Bool {
    say(
      "\(rounds) topologies, \(faults) faults, \(total.arrived) numbers arrived: "
        + "\(total.lost) lost, \(total.repeated) repeated, \(total.reordered) reordered; "
        + time.shortText)
    let count = total.violations.count + problems.count
    guard count > 0 else {
      say("verdict: exact")
      return true
    }
    for problem in problems { say(problem) }
    say("verdict: VIOLATED, in \(count) places; repeat with: soak \(options.text)")
    return false
  }
}

/// Prints a line at once, also into a pipe.
func say(_ line: String) {
  print(line)
  fflush(nil)
}
