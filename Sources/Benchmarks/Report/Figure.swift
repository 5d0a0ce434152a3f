/// One line of the report.
struct Figure {
  /// What the issue asks of a figure.
  enum Target {
    case atMost(Quantity)
    case atLeast(Quantity)
    case exactly(Quantity)
    /// Of the baseline's value.
    case ratioAtMost(Double)
    case ratioAtLeast(Double)
  }

  var name: String
  var value: Quantity
  var baseline: Quantity?
  var target: Target?

  /// How many times the baseline it is.
  var ratio: Double? { baseline.map { value.value / $0.value } }

  /// Whether the target is met; `nil` where there is none.
  var isMet: Bool? {
    switch target {
    case .atMost(let limit): value <= limit
    case .atLeast(let limit): value >= limit
    case .exactly(let expected): value == expected
    case .ratioAtMost(let limit): ratio.map { $0 <= limit }
    case .ratioAtLeast(let limit): ratio.map { $0 >= limit }
    case nil: nil
    }
  }

  var targetText: String {
    switch target {
    case .atMost(let limit): "≤ \(limit)"
    case .atLeast(let limit): "≥ \(limit)"
    case .exactly(let expected): "= \(expected)"
    case .ratioAtMost(let limit): "≤ \(limit.fixed(2))×"
    case .ratioAtLeast(let limit): "≥ \(limit.fixed(2))×"
    case nil: ""
    }
  }
}
