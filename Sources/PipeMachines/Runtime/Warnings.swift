import PipeSupport

/// Who is told of what is wrong with what runs in this process, where nobody else can be.
package enum Warnings {
  /// Standard error, where a test does not say otherwise for what it makes.
  @TaskLocal package static var tell: @Sendable (String) -> Void = {
    StandardError.write("warning: \($0)\n")
  }
}
