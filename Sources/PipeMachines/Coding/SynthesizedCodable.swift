/// A type whose `Codable` is the one that the compiler writes: its author has written no `encode(to:)`, no
/// `init(from:)` and no `CodingKeys`.
///
/// Events and states that say so travel as any other does, in the same bytes, and cost a fraction of the
/// time: a case whose values are numbers, truth values and texts, or optionals of these, is written and
/// read in place. What has other values goes by way of `Codable`, as does every type that does not say
/// so: nothing in a program tells whose the conformance is.
///
/// ```swift
/// enum Event: MachineEvent, SynthesizedCodable {
///   case moved(x: Double, y: Double)
/// }
/// ```
///
/// - Note: Each case is held against its `Codable` with samples when it is first used. One that differs
///   goes by way of `Codable`, with a warning; a conformance that treats only rare values otherwise is not
///   found out.
public protocol SynthesizedCodable: Codable {}
