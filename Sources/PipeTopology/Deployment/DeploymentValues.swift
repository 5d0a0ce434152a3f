import PipeMachines
import PipeSupport
import PipeSystem

extension TopologyValue<[String]> {
  /// Hosts by their names, each once.
  static var hosts: Self {
    Self(
      schema: [
        "type": "array", "minItems": 1, "uniqueItems": true,
        "items": .orVariable(.pattern(HostName.pattern)),
      ], write: { $0.isEmpty ? nil : OrderedValue.names($0) }
    ) { reading, place in
      guard let elements = reading.elements(of: place, hint: "a list of hosts") else { return nil }
      var hosts: [String] = []
      for element in elements {
        guard let name = reading.string(element, hint: "a host's name") else { continue }
        if !HostName.isValid(name) {
          reading.report(
            .badName, element,
            "names '\(name)', and a host's name has letters, digits, '.', '-' and '_' alone")
        } else if hosts.contains(name) {
          reading.report(.duplicateKey, element, "names '\(name)' twice; remove one")
        } else {
          hosts.append(name)
        }
      }
      if elements.isEmpty {
        reading.report(.badValue, place, "is empty; a place has at least one host")
      }
      return hosts
    }
  }
}

extension TopologyValue<Duration> {
  /// How long a process may go on without its orchestrator.
  static var leaseTerm: Self {
    let terms = Deployment.leaseTerms
    let duration = positiveDuration
    // The standard one is left out: with some engines the key says nothing.
    var kind = Self(
      schema: duration.schema,
      write: { $0 == Deployment.standardLease ? nil : duration.write($0) }
    ) { reading, place in
      guard let term = duration.read(&reading, place) else { return nil }
      guard terms.contains(term) else {
        reading.report(
          .badDuration, place,
          "must be from \(DurationText.write(terms.lowerBound)) to \(DurationText.write(terms.upperBound)), not "
            + DurationText.write(term))
        return nil
      }
      return term
    }
    kind.definitions = duration.definitions
    return kind
  }
}

/// The names that hosts have.
private enum HostName {
  static let pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$"

  static func isValid(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    guard let first = bytes.first, bytes.count <= 253 else { return false }
    return isLetterOrDigit(first)
      && bytes.allSatisfy { isLetterOrDigit($0) || ".-_".utf8.contains($0) }
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: false
    }
  }
}

extension TopologyValue<String> {
  /// An IPv4 address that others can connect to.
  static var address: Self {
    let byte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    let first = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]?)"
    let kind = Self(
      schema: .orVariable(.pattern("^\(first)(\\.\(byte)){3}$")), write: OrderedValue.text
    ) { reading, place in
      guard let text = place.node.scalar?.text, let address = IPv4Address(text) else {
        reading.refuse(place, wanted: "an IPv4 address in numbers, such as 127.0.0.1")
        return nil
      }
      // Addresses of this network mean every one that a machine has, or none.
      if address.number >> 24 == 0 {
        reading.report(
          .badValue, place,
          "cannot be \(text), where nobody can connect to; write the address itself")
        return nil
      }
      return text
    }
    return kind.defined("address", "An IPv4 address in numbers: 127.0.0.1.")
  }

  /// The name of a place.
  static var placeName: Self {
    Self(schema: .orVariable(.reference("nodeName")), write: OrderedValue.text) { reading, place in
      guard let text = reading.string(place, hint: "a place's name"),
        reading.checkName(text, dots: false, at: place.node.mark, title: place.title)
      else { return nil }
      return text
    }
  }
}
