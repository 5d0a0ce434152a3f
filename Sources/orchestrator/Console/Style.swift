import PipeRuntime

/// How text is shown: colours and weights where they are on, and times.
package struct Style: Hashable, Sendable {
  package var isColored: Bool
  /// Whether times are those of this place, as on a terminal, and not UTC.
  package var hasLocalTimes: Bool

  package init(isColored: Bool, hasLocalTimes: Bool = false) {
    self.isColored = isColored
    self.hasLocalTimes = hasLocalTimes
  }

  /// A time for a person to read.
  package func text(of time: Timestamp) -> String {
    hasLocalTimes ? time.localText : time.description
  }

  /// - Parameter nanoseconds: Since 1970.
  package func time(_ nanoseconds: Int64) -> String {
    text(of: Timestamp(nanoseconds: nanoseconds))
  }

  package func bold(_ text: String) -> String { wrap(text, "1") }
  package func dim(_ text: String) -> String { wrap(text, "2") }
  package func red(_ text: String) -> String { wrap(text, "31") }
  package func green(_ text: String) -> String { wrap(text, "32") }
  package func yellow(_ text: String) -> String { wrap(text, "33") }
  package func cyan(_ text: String) -> String { wrap(text, "36") }

  /// One of a few colours, so that nodes are told apart.
  package func number(_ index: Int, _ text: String) -> String {
    let palette = ["36", "33", "32", "35", "34", "96", "93", "92", "95", "94"]
    return wrap(text, palette[index % palette.count])
  }

  /// The colour of a node's lifecycle word.
  package func status(_ word: String, _ text: String? = nil) -> String {
    let text = text ?? word
    return switch word {
    case "running": green(text)
    case "failed": red(text)
    case "starting", "configuring", "ready", "stopping", "backing off", "waiting": yellow(text)
    default: dim(text)
    }
  }

  /// Lines that tell several things, each behind its label; of what is not known there are no values.
  func lines(of parts: [(label: String, values: [String])], labelWidth: Int) -> [String] {
    parts.flatMap { label, values in
      values.enumerated().map { index, value in
        "  \(dim((index == 0 ? label : "").padded(to: labelWidth)))  \(value.printable)"
      }
    }
  }

  private func wrap(_ text: String, _ code: String) -> String {
    isColored && !text.isEmpty ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
  }
}

extension Int {
  /// `1 node`, `2 nodes`
  func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
