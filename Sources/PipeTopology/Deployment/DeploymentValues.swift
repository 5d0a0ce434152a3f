import PipeMachines
import PipeSystem

extension TopologyValue<Deployment.Engine> {
  /// What starts processes; of one that is only planned, messages say so.
  static var engine: Self {
    let known = choice
    return Self(schema: known.schema, write: known.write) { reading, place in
      guard place.node.scalar?.text == "slurm" else { return known.read(&reading, place) }
      reading.report(
        .badValue, place, "cannot be 'slurm': this engine is not available yet; write 'local'")
      return nil
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
