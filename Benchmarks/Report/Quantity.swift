/// A measured amount with its unit. The description is text for people.
struct Quantity: Comparable, CustomStringConvertible {
  enum Unit: String, Codable { case seconds, perSecond, bytes, count }

  let value: Double
  let unit: Unit

  static func seconds(_ value: Double) -> Self { Quantity(value: value, unit: .seconds) }
  static func perSecond(_ value: Double) -> Self { Quantity(value: value, unit: .perSecond) }
  static func megabytes(_ value: Double) -> Self { Quantity(value: value * 1e6, unit: .bytes) }
  static func count(_ value: Double) -> Self { Quantity(value: value, unit: .count) }
  static func bytes(_ count: Int) -> Self { Quantity(value: Double(count), unit: .bytes) }

  static func < (left: Self, rightAligned: Self) -> Bool { left.value < rightAligned.value }

  var description: String {
    switch unit {
    case .seconds:
      if value < 1e-6 { return "\((value * 1e9).fixed(1)) ns" }
      if value < 1e-3 { return "\((value * 1e6).fixed(1)) µs" }
      if value < 1 { return "\((value * 1e3).fixed(1)) ms" }
      return "\(value.fixed(2)) s"
    case .perSecond:
      if value < 10_000_000 { return "\(Int(value.rounded()).grouped) /s" }
      return "\((value / 1e6).fixed(1)) M/s"
    case .count: return value.fixed(3)
    case .bytes: return "\((value / 1e6).fixed(1)) MB"
    }
  }
}

extension Double {
  /// Returns the number with a fixed number of decimal places.
  func fixed(_ digits: Int) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int((self * scale).rounded())
    guard digits > 0 else { return "\(scaled)" }
    let fraction = String(scaled % Int(scale))
    return "\(scaled / Int(scale))."
      + String(repeating: "0", count: digits - fraction.count) + fraction
  }
}

extension Int {
  /// The number with a comma between groups of three digits.
  var grouped: String {
    var text = ""
    for (index, digit) in String(self).reversed().enumerated() {
      if index > 0, index % 3 == 0 { text.append(",") }
      text.append(digit)
    }
    return String(text.reversed())
  }
}

extension String {
  /// Returns the text, followed by spaces up to a width.
  func padded(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }

  /// Returns the text, preceded by spaces up to a width.
  func rightAligned(in width: Int) -> String {
    String(repeating: " ", count: max(0, width - count)) + self
  }
}

/// Repeated measurements of a quantity.
struct Samples {
  private var values: [Double] = []

  mutating func add(_ value: Double) { values.append(value) }

  var count: Int { values.count }

  /// The median.
  var median: Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return .nan }
    let middle = sorted.count / 2
    return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  }

  var minimum: Double { values.min() ?? .nan }
  var maximum: Double { values.max() ?? .nan }
}
