import PipeSupport
import PipeWire

/// The reading of one file: the diagnostics so far, and the values of the simple types.
///
/// A reader returns `nil` after it has reported why, so that all errors are found at once.
struct TopologyReading {
  var diagnostics: [Diagnostic] = []
  var source: SourceMap

  init(file: String) {
    source = SourceMap(file: file)
  }

  mutating func report(
    _ code: Diagnostic.Code, at mark: SourceMark, _ message: String,
    severity: Diagnostic.Severity = .error
  ) {
    diagnostics.append(
      Diagnostic(file: source.file, mark: mark, severity: severity, code: code, message: message))
  }

  mutating func report(_ code: Diagnostic.Code, _ place: TopologyPlace, _ message: String) {
    guard !place.node.isBroken else { return }
    report(code, at: place.node.mark, "\(place.title) \(message)")
  }

  // MARK: Mappings and lists

  /// An entry of a mapping; `isText` is false for a key such as `1` or `true` without quotes.
  typealias Member = (key: String, value: TopologyPlace, mark: SourceMark, isText: Bool)

  /// The entries of a mapping with free names, each name once.
  mutating func members(
    of place: TopologyPlace, noun: String = "key", hint: String = "a mapping"
  ) -> [Member]? {
    guard case .mapping(let entries) = place.node.content else {
      report(.badValue, place, "must be \(hint), not \(place.node.summary)")
      return nil
    }
    var first: [String: SourceMark] = [:]
    var members: [Member] = []
    for entry in entries {
      if let mark = first[entry.key] {
        let prefix = noun == "key" ? "\(place.title): " : ""
        report(
          .duplicateKey, at: entry.keyMark,
          "\(prefix)\(noun) '\(entry.key)' is named twice, first at line \(mark.line), column "
            + "\(mark.column); rename or remove one")
        continue
      }
      first[entry.key] = entry.keyMark
      let value = place.child(entry.key, entry.value)
      source.record(value.path, key: entry.keyMark, value: entry.value.mark)
      let isText = YAMLScalar(text: entry.key, isPlain: entry.isKeyPlain).value.string != nil
      members.append((entry.key, value, entry.keyMark, isText))
    }
    return members
  }

  /// The entries of a mapping whose keys are described.
  mutating func fields(
    of place: TopologyPlace, _ mapping: TopologyMapping
  ) -> [String: TopologyPlace]? {
    guard let members = members(of: place) else { return nil }
    var fields: [String: TopologyPlace] = [:]
    for member in members {
      if mapping.names.contains(member.key) {
        fields[member.key] = member.value
        continue
      }
      let choices = Suggestion.among(mapping.names, like: member.key, verb: "the keys are")
      report(.unknownKey, at: member.mark, "\(place.title) has no key '\(member.key)'\(choices)")
    }
    for key in mapping.required where fields[key] == nil {
      report(.missingKey, place, "has no '\(key)'; add it")
    }
    return fields
  }

  /// The elements of a list.
  mutating func elements(of place: TopologyPlace, hint: String) -> [TopologyPlace]? {
    guard case .sequence(let nodes) = place.node.content else {
      report(.badValue, place, "must be \(hint), not \(place.node.summary)")
      return nil
    }
    return nodes.enumerated().map { index, node in
      var element = place.child(String(index), node)
      element.key = place.key
      source.record(element.path, key: node.mark, value: node.mark)
      return element
    }
  }

  // MARK: Scalars

  mutating func string(_ place: TopologyPlace, hint: String = "text") -> String? {
    if case .scalar(let scalar) = place.node.content {
      // What a variable gives is text where text is wanted.
      let value = scalar.written == nil ? scalar.value : .string(scalar.text)
      if case .string(let text) = value, !text.isEmpty {
        if !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { return text }
        report(.badValue, place, "must be \(hint) without control characters; remove them")
        return nil
      }
      if !scalar.text.isEmpty, scalar.value != .null {
        report(.badValue, place, "must be \(hint); put \(scalar.text) in quotes")
        return nil
      }
    }
    report(.badValue, place, "must be \(hint), not \(place.node.summary)")
    return nil
  }

  mutating func name(_ place: TopologyPlace, dots: Bool) -> String? {
    string(place, hint: "a name").flatMap { text in
      checkName(text, dots: dots, at: place.node.mark, title: place.title) ? text : nil
    }
  }

  /// Whether a text is a name; reports it where it is not.
  mutating func checkName(
    _ text: String, dots: Bool, at mark: SourceMark, title: String
  ) -> Bool {
    if NamePattern.matches(text, dots: dots) { return true }
    let marks = dots ? "_ - ." : "_ -"
    report(
      .badName, at: mark,
      "\(title): '\(text)' is no name; use 1 to \(NamePattern.lengthLimit) of A-Z a-z 0-9 "
        + "\(marks), starting with a letter or digit")
    return false
  }

  /// Reports a name that is no text, so that a list could not name it without quotes.
  mutating func checkText(of member: Member, title: String) {
    guard !member.isText else { return }
    report(
      .badName, at: member.mark,
      "\(title): a name is text, and \(member.key) without quotes is none; write "
        + "\"\(member.key)\", or begin it with a letter")
  }

  mutating func integer(
    _ place: TopologyPlace, in range: ClosedRange<Int>, unit: String
  ) -> Int? {
    if case .scalar(let scalar) = place.node.content, case .integer(let value) = scalar.typed,
      let value = Int(exactly: value), range.contains(value)
    {
      return value
    }
    report(
      .badValue, place,
      "must be a whole number of \(unit) from \(range.lowerBound) to "
        + "\(range.upperBound), not \(place.node.summary)")
    return nil
  }

  /// A part of a whole, from 0 to 1.
  mutating func part(_ place: TopologyPlace) -> Double? {
    if case .scalar(let scalar) = place.node.content {
      switch scalar.typed {
      case .integer(let value) where (0...1).contains(value): return Double(value)
      case .number(let value) where (0...1).contains(value): return value
      default: break
      }
    }
    report(.badValue, place, "must be a number from 0 to 1, not \(place.node.summary)")
    return nil
  }

  mutating func bool(_ place: TopologyPlace) -> Bool? {
    if case .scalar(let scalar) = place.node.content, case .bool(let value) = scalar.typed {
      return value
    }
    report(.badValue, place, "must be true or false, not \(place.node.summary)")
    return nil
  }

  mutating func choice<Value: RawRepresentable & CaseIterable>(
    _ place: TopologyPlace, _ type: Value.Type = Value.self
  ) -> Value? where Value.RawValue == String {
    let choices = Value.allCases.map(\.rawValue)
    if case .scalar(let scalar) = place.node.content {
      if case .string(let text) = scalar.value, let value = Value(rawValue: text) { return value }
      let list = Suggestion.among(choices, like: scalar.text, verb: "it takes")
      report(.badValue, place, "cannot be \(place.node.summary)\(list)")
    } else {
      report(
        .badValue, place,
        "cannot be \(place.node.summary)"
          + Suggestion.among(choices, like: "", verb: "it takes"))
    }
    return nil
  }

  mutating func duration(_ place: TopologyPlace, zero: Bool = false) -> Duration? {
    if case .scalar(let scalar) = place.node.content {
      if let value = DurationText.parse(scalar.text), scalar.value.string != nil {
        if value > .zero || zero { return value }
        report(.badDuration, place, "must be longer than \(scalar.text)")
        return nil
      }
      if case let problem = DurationText.Problem(with: scalar.text), problem != .noLength {
        report(.badDuration, place, "\(problem)")
        return nil
      }
    }
    report(
      .badDuration, place, "\(DurationText.Problem.noLength), not \(place.node.summary)")
    return nil
  }
}

/// What a topology's or a node's name is made of.
package enum NamePattern {
  /// The longest name. Unit: bytes.
  package static let lengthLimit = 41

  package static func matches(_ text: String, dots: Bool) -> Bool {
    let bytes = text.utf8
    guard (1...lengthLimit).contains(bytes.count), let first = bytes.first, isWord(first) else {
      return false
    }
    return bytes.allSatisfy {
      isWord($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        || dots && $0 == UInt8(ascii: ".")
    }
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: false
    }
  }
}
