/// How many events a second a node has taken lately, from what it tells of itself now and then.
package struct NodeTrend: Hashable, Sendable {
  /// What a node has told at a time.
  package struct Reading: Hashable, Sendable {
    package var events: UInt64
    /// Unit: nanoseconds since 1970.
    package var time: Int64
    /// Another process of the node counts anew.
    package var incarnation: UInt64

    package init(events: UInt64, time: Int64, incarnation: UInt64) {
      self.events = events
      self.time = time
      self.incarnation = incarnation
    }
  }

  /// The rates that are kept.
  package static let length = 6
  /// The least time that a rate is of. Unit: nanoseconds.
  private static let interval: Int64 = 900_000_000

  private var last: Reading?
  /// Unit: events a second; the latest one last.
  package private(set) var rates: [Double] = []

  package init() {}

  /// Takes what a node has told; what is older than what is known tells nothing.
  package mutating func take(_ reading: Reading) {
    guard let before = last, before.incarnation == reading.incarnation else {
      last = reading
      return
    }
    guard reading.time >= before.time + Self.interval, reading.events >= before.events else {
      return
    }
    last = reading
    let seconds = Double(reading.time - before.time) / 1e9
    rates = rates.suffix(Self.length - 1) + [Double(reading.events - before.events) / seconds]
  }

  /// The latest rate; `nil` before there is one.
  package var rate: Double? { rates.last }

  /// A bar for each rate, the highest one full.
  package var bars: String {
    let highest = rates.max() ?? 0
    return String(
      rates.map { rate -> Character in
        guard rate > 0 else { return "·" }
        return Self.bars[min(Int(rate / highest * Double(Self.bars.count)), Self.bars.count - 1)]
      })
  }

  private static let bars: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

  /// `0`, `12`, `1.2k`, `350k`: a rate in five columns at most.
  package static func text(_ rate: Double?) -> String {
    guard let rate else { return "-" }
    if rate < 10, rate != rate.rounded() {
      let tenths = Int((rate * 10).rounded())
      return "\(tenths / 10).\(tenths % 10)"
    }
    var (value, unit) = (rate, "")
    for next in ["k", "M", "G"] where value >= 1_000 { (value, unit) = (value / 1_000, next) }
    guard !unit.isEmpty, value < 10 else { return "\(Int(value.rounded()))\(unit)" }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)\(unit)"
  }
}
