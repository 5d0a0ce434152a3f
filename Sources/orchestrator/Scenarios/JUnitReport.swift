import PipeRuntime

/// The outcomes of scenarios in the XML format of JUnit, which CI systems read.
package struct JUnitReport {
  /// The outcome of one scenario.
  package struct Case {
    package let name: String
    package let file: String
    package let duration: Duration
    /// The reason why the scenario failed; `nil` if it passed.
    package let problem: String?
    /// Details of the failure, such as a table of the steps.
    package let details: String

    package init(
      name: String, file: String, duration: Duration, problem: String? = nil, details: String = ""
    ) {
      self.name = name
      self.file = file
      self.duration = duration
      self.problem = problem
      self.details = details
    }
  }

  private let cases: [Case]

  package init(_ cases: [Case]) { self.cases = cases }

  /// The report as XML.
  package var xml: String {
    var lines = [
      #"<?xml version="1.0" encoding="UTF-8"?>"#,
      "<testsuites>",
      #"  <testsuite name="orchestrator test" tests="\#(cases.count)" "#
        + #"failures="\#(cases.count { $0.problem != nil })" errors="0" skipped="0" "#
        + #"time="\#(Self.seconds(cases.reduce(.zero) { $0 + $1.duration }))">"#,
    ]
    for test in cases {
      let head =
        #"    <testcase name="\#(Self.escaped(test.name))" classname="\#(Self.escaped(test.file))" "#
        + #"time="\#(Self.seconds(test.duration))""#
      guard let problem = test.problem else {
        lines.append(head + "/>")
        continue
      }
      lines.append(head + ">")
      lines.append(
        #"      <failure message="\#(Self.escaped(problem))">\#(Self.escaped(test.details))</failure>"#
      )
      lines.append("    </testcase>")
    }
    return (lines + ["  </testsuite>", "</testsuites>", ""]).joined(separator: "\n")
  }

  private static func seconds(_ duration: Duration) -> String {
    let milliseconds = duration.wholeMilliseconds
    let fraction = String(milliseconds % 1_000)
    return "\(milliseconds / 1_000)."
      + String(repeating: "0", count: max(0, 3 - fraction.count)) + fraction
  }

  /// Returns a text with the characters that XML reserves, and without the control characters that
  /// XML cannot contain.
  private static func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      case "\n": result += "&#10;"
      case "\t": result += "\t"
      case _ where scalar.value < 0x20 || scalar.value == 0xFFFE || scalar.value == 0xFFFF:
        result += "\u{FFFD}"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
