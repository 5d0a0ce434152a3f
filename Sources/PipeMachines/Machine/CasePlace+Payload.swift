extension CasePlace {
  /// The payload of a value of this case.
  func payload<each Field>(
    of value: Value, _ types: repeat (each Field).Type
  ) -> (repeat each Field) {
    withUnsafePointer(to: value) {
      EnumLayout.withPayload(of: $0, boxOffset: boxOffset, repeat (each Field).self) {
        (fields: repeat each Field) in (repeat each fields)
      }
    }
  }
}
