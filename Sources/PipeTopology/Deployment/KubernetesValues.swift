import PipeMachines
import PipeSupport

// The types of the values in a deployment for Kubernetes, with the syntax checks of the Kubernetes
// API.

extension TopologyValueType<String> {
  /// The type of a container image's name.
  static var image: Self {
    matching(
      "^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$", "an image, such as registry.example/hall:1.0"
    ) { text in
      (1...255).contains(text.utf8.count) && KubernetesName.isEnd(text.utf8.first)
        && text.utf8.allSatisfy { KubernetesName.isEnd($0) || "._:/@-".utf8.contains($0) }
    }
  }

  /// The type of a namespace's name, which is a single DNS label.
  static var namespace: Self {
    matching(
      "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
      "1 to 63 characters of a-z 0-9 -, starting and ending with a letter or digit",
      where: KubernetesName.isLabel)
  }

  /// The type of a storage class's name.
  static var storageClass: Self {
    matching(
      "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
      "a storage class name: lower-case letters, digits and '-', in parts that are separated by dots",
      where: KubernetesName.isSubdomain)
  }

  /// The type of a volume's size.
  static var storageSize: Self {
    matching("^[1-9][0-9]{0,8}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)$", "a size with its unit, such as 1Gi") {
      text in
      let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      let unit = String(text.dropFirst(digits.count))
      return (1...9).contains(digits.count) && digits.first != UInt8(ascii: "0")
        && ["Ki", "Mi", "Gi", "Ti", "Pi", "k", "M", "G", "T", "P"].contains(unit)
    }
  }

  /// Returns the type of a text that matches a pattern.
  /// - Parameters:
  ///   - pattern: The pattern for the JSON Schema.
  ///   - hint: The kind of text, as named in messages.
  ///   - isValid: The check for the reader, which must accept the same texts as `pattern`.
  private static func matching(
    _ pattern: String, _ hint: String, where isValid: @escaping @Sendable (String) -> Bool
  ) -> Self {
    Self(schema: .orVariable(.pattern(pattern)), writeValue: OrderedValue.text) { reading, cursor in
      guard let text = reading.string(cursor, hint: hint) else { return nil }
      guard isValid(text) else {
        reading.report(.badValue, cursor, "must be \(hint), not '\(text)'")
        return nil
      }
      return text
    }
  }
}

extension TopologyValueType<Int> {
  /// The type of an unprivileged port. The writer omits the default port, because other engines
  /// reject the key.
  static var port: Self {
    let range = 1024...65535
    let schema: JSONValue = [
      "type": "integer", "minimum": .integer(Int64(range.lowerBound)),
      "maximum": .integer(Int64(range.upperBound)),
    ]
    return Self(
      schema: .orVariable(schema),
      writeValue: { $0 == Deployment.defaultPort ? nil : .leaf(.integer(Int64($0))) }
    ) { reading, cursor in
      if let port = cursor.node.scalar?.typedValue.integer.flatMap(Int.init(exactly:)),
        range.contains(port)
      {
        return port
      }
      reading.refuse(cursor, wanted: "a port from \(range.lowerBound) to \(range.upperBound)")
      return nil
    }
  }
}

extension TopologyValueType<[String: String]> {
  /// The type of a mapping of host labels. Numbers and Booleans keep their spelling in the file.
  static var labels: Self {
    let part = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
    let value: JSONValue = .orVariable([
      "type": ["string", "number", "boolean"], "pattern": .string("^(\(part))?$"),
    ])
    return Self(
      schema: [
        "type": "object", "minProperties": 1,
        "propertyNames": .pattern("^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?\(part)$"),
        "additionalProperties": value,
      ],
      writeValue: { labels in
        let members = labels.sorted { $0.key < $1.key }.map {
          ($0.key, OrderedValue.text($0.value))
        }
        return .named(members)
      }
    ) { reading, cursor in
      guard let members = reading.members(of: cursor, hint: "a mapping of labels") else {
        return nil
      }
      if members.isEmpty {
        reading.report(.badValue, cursor, "is empty; add at least one label")
      }
      var labels: [String: String] = [:]
      for member in members {
        if !KubernetesName.isLabelKey(member.key) {
          reading.report(
            .badName, at: member.position,
            "\(cursor.title): '\(member.key)' is not a valid label name; use NAME or DOMAIN/NAME, "
              + "with 1 to 63 characters of A-Z a-z 0-9 . _ - in NAME")
        } else if let scalar = member.value.node.scalar,
          scalar.value != .null || scalar.writtenText != nil,
          scalar.text.isEmpty || KubernetesName.isLabelPart(scalar.text)
        {
          labels[member.key] = scalar.text
        } else {
          reading.report(
            .badValue, member.value,
            "must be at most 63 characters of A-Z a-z 0-9 . _ -, starting and ending with a letter "
              + "or digit, not "
              + member.value.node.summary)
        }
      }
      return labels
    }
  }
}

/// The syntax of names in Kubernetes.
package enum KubernetesName {
  /// Returns whether a text is a DNS label (RFC 1123): the name of a namespace, a service or a
  /// StatefulSet.
  package static func isLabel(_ text: String) -> Bool {
    (1...63).contains(text.utf8.count) && isLowerEnd(text.utf8.first) && isLowerEnd(text.utf8.last)
      && text.utf8.allSatisfy { isLowerEnd($0) || $0 == UInt8(ascii: "-") }
  }

  /// Returns whether a text is a DNS subdomain: labels separated by dots.
  package static func isSubdomain(_ text: String) -> Bool {
    text.utf8.count <= 253
      && text.split(separator: ".", omittingEmptySubsequences: false)
        .allSatisfy { isLabel(String($0)) }
  }

  /// Returns whether a text is a label key, such as `zone` or `topology.kubernetes.io/zone`.
  static func isLabelKey(_ text: String) -> Bool {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    return switch parts.count {
    case 1: isLabelPart(parts[0])
    case 2: isSubdomain(parts[0]) && isLabelPart(parts[1])
    default: false
    }
  }

  /// Returns whether a text is a non-empty label value, or the name part of a label key.
  static func isLabelPart(_ text: String) -> Bool {
    (1...63).contains(text.utf8.count) && isEnd(text.utf8.first) && isEnd(text.utf8.last)
      && text.utf8.allSatisfy { isEnd($0) || "._-".utf8.contains($0) }
  }

  fileprivate static func isEnd(_ byte: UInt8?) -> Bool {
    guard let byte else { return false }
    return isLowerEnd(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
  }

  private static func isLowerEnd(_ byte: UInt8?) -> Bool {
    guard let byte else { return false }
    return (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
      || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}

/// The names of a topology's processes in a cluster. Each name is a DNS label, since it is also the
/// name of a service.
///
/// A name depends only on the names of the topology and the process. So each process keeps its
/// volume claim when other parts of the file change.
package struct ClusterNames: Sendable {
  /// The topology's name as a DNS label, which is the prefix of all other names.
  package let topology: String
  private let wholeName: String

  /// The maximum length of a StatefulSet's name. Kubernetes appends a hash, and the result must
  /// still be a DNS label. Unit: bytes.
  package static let maximumLength = 52

  package init(topology: String) {
    self.topology = Self.label(of: topology)
    wholeName = topology
  }

  /// Whether these names are valid for services, which must begin with a letter.
  var areValidServiceNames: Bool { topology.utf8.first.map { $0 >= UInt8(ascii: "a") } == true }

  /// Returns the name of a process's Kubernetes objects, such as `hall-door`.
  ///
  /// A name that is too long is cut, and ends with a hash of the full name.
  package func objectName(of process: String) -> String {
    let name = topology + "-" + Self.label(of: process)
    guard name.utf8.count > Self.maximumLength else { return name }
    let hash = FNV.hexadecimalHash(of: wholeName + "/" + process)
    let start = name.prefix(Self.maximumLength - 1 - hash.utf8.count)
    return Self.withoutTrailingHyphens(String(start)) + "-" + hash
  }

  /// The name of the orchestrator's Kubernetes objects.
  package var orchestrator: String { objectName(of: Self.orchestratorProcess) }

  /// The process name that denotes the orchestrator.
  package static let orchestratorProcess = "orchestrator"

  /// Returns a name as a DNS label: in lowercase, with `-` for other punctuation.
  package static func label(of name: String) -> String {
    withoutTrailingHyphens(
      String(
        decoding: name.utf8.map { byte -> UInt8 in
          switch byte {
          case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
          case UInt8(ascii: "_"), UInt8(ascii: "."): UInt8(ascii: "-")
          default: byte
          }
        }, as: UTF8.self))
  }

  /// Removes the hyphens at the end of a text: a DNS label cannot end with a hyphen.
  private static func withoutTrailingHyphens(_ text: String) -> String {
    var text = text
    while text.utf8.last == UInt8(ascii: "-") { text.removeLast() }
    return text
  }
}
