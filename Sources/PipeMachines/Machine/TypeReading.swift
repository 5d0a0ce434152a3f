import PipeSupport

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// How this process reads enums: the case of a value, its payload, and the list of a type's cases.
///
/// Swift has no fast public interface for this, so PipeRuntime reads the memory of values and types
/// as Swift 6.3 lays it out. A newer compiler may use another layout. ``MetadataCanary`` then
/// detects the difference, and PipeRuntime reads values through the reflection of the standard
/// library instead. The machine behaves the same, but is slower, and PipeRuntime prints one
/// warning.
@usableFromInline
package enum TypeReading: String, Sendable {
  /// Values and types are read from memory.
  case layout
  /// Values are read by reflection; the lists of cases are read from memory.
  case mirror
  /// Nothing is read from memory. The known cases of a type are the cases that occurred in values
  /// so far.
  case mirrorOnly = "mirror-only"

  #if compiler(<6.4) && !DEBUG
    package static var current: TypeReading { .layout }

    @inlinable
    static var isReflective: Bool { false }
  #else
    package static let current: TypeReading = choose()

    @usableFromInline static let isReflective = current != .layout
  #endif

  /// The environment variable that selects how enums are read, in debug builds and with newer
  /// compilers.
  package static let variable = "PIPERUNTIME_TYPE_READING"

  private static func choose() -> TypeReading {
    let requested = getenv(variable).flatMap { TypeReading(rawValue: String(cString: $0)) }
    let (reading, difference) = MetadataCanary.reading()
    if let requested { return requested }
    if let difference { Warnings.tell(MetadataCanary.warning(difference)) }
    return reading
  }
}
