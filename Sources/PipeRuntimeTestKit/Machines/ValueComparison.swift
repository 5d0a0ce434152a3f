/// Compares values of which it need not be known that they are `Equatable`.
///
/// The states of a machine need not be. Reflection is slow, and good enough for a test.
enum ValueComparison {
  /// A part in which two values differ.
  struct Difference {
    /// The way to the part, such as `persons` or `order.lines.0`.
    var path: String
    var expected: String
    var actual: String
  }

  static func areEqual(_ left: Any, _ right: Any) -> Bool {
    if let left = left as? any Equatable { return isEqual(left, right) }
    guard type(of: left) == type(of: right) else { return false }
    let (leftParts, rightParts) = (parts(of: left), parts(of: right))
    guard !leftParts.isEmpty || !rightParts.isEmpty else {
      return String(reflecting: left) == String(reflecting: right)
    }
    return haveSameShape(leftParts, rightParts)
      && zip(leftParts, rightParts).allSatisfy { areEqual($0.value, $1.value) }
  }

  /// Where the values differ; one difference without a path where they have nothing in common.
  static func differences(expected: Any, actual: Any, path: String = "") -> [Difference] {
    if areEqual(expected, actual) { return [] }
    let (expectedParts, actualParts) = (parts(of: expected), parts(of: actual))
    guard type(of: expected) == type(of: actual), !expectedParts.isEmpty,
      haveSameShape(expectedParts, actualParts)
    else {
      return [
        Difference(
          path: path, expected: String(describing: expected), actual: String(describing: actual))
      ]
    }
    return zip(expectedParts, actualParts).enumerated().flatMap { index, pair in
      // The name of an enum's case is no step on the way.
      let isCase = Mirror(reflecting: expected).displayStyle == .enum
      let label = isCase ? nil : pair.0.label ?? "\(index)"
      return differences(
        expected: pair.0.value, actual: pair.1.value,
        path: [path, label ?? ""].filter { !$0.isEmpty }.joined(separator: "."))
    }
  }

  private static func isEqual<Value: Equatable>(_ left: Value, _ right: Any) -> Bool {
    left == right as? Value
  }

  private static func parts(of value: Any) -> [(label: String?, value: Any)] {
    Mirror(reflecting: value).children.map { child in
      // A label of a tuple is `.0` where there is none.
      (child.label.map { $0.hasPrefix(".") ? String($0.dropFirst()) : $0 }, child.value)
    }
  }

  private static func haveSameShape(
    _ left: [(label: String?, value: Any)], _ right: [(label: String?, value: Any)]
  ) -> Bool {
    left.count == right.count && zip(left, right).allSatisfy { $0.label == $1.label }
  }
}
