/// A content in each of its roles, or `nil` for those that it does not have.
///
/// A conformance answers for itself, below. To ask with `as?` would be to have the runtime go through all
/// conformances of the process, once for each role: a good part of a node's start.
protocol ContentRoles: AnyObject {
  var asEndsByItself: (any EndsByItself)? { get }
  var asShowsStates: (any ShowsStates)? { get }
  var asTakesSteps: (any TakesSteps)? { get }
  var asTracesSteps: (any TracesSteps)? { get }
  var asTakesInputs: (any TakesInputs)? { get }
  var asTakesRequests: (any TakesRequests)? { get }
  var asHasDeadLetters: (any HasDeadLetters)? { get }
  var asAnswersQuestions: (any AnswersQuestions)? { get }
  var asCoordinates: (any Coordinates)? { get }
  var asTakesPart: (any TakesPart)? { get }
  var asRecordsSteps: (any RecordsSteps)? { get }
}

extension ContentRoles {
  var asEndsByItself: (any EndsByItself)? { nil }
  var asShowsStates: (any ShowsStates)? { nil }
  var asTakesSteps: (any TakesSteps)? { nil }
  var asTracesSteps: (any TracesSteps)? { nil }
  var asTakesInputs: (any TakesInputs)? { nil }
  var asTakesRequests: (any TakesRequests)? { nil }
  var asHasDeadLetters: (any HasDeadLetters)? { nil }
  var asAnswersQuestions: (any AnswersQuestions)? { nil }
  var asCoordinates: (any Coordinates)? { nil }
  var asTakesPart: (any TakesPart)? { nil }
  var asRecordsSteps: (any RecordsSteps)? { nil }
}

extension EndsByItself { var asEndsByItself: (any EndsByItself)? { self } }
extension ShowsStates { var asShowsStates: (any ShowsStates)? { self } }
extension TakesSteps { var asTakesSteps: (any TakesSteps)? { self } }
extension TracesSteps { var asTracesSteps: (any TracesSteps)? { self } }
extension TakesInputs { var asTakesInputs: (any TakesInputs)? { self } }
extension TakesRequests { var asTakesRequests: (any TakesRequests)? { self } }
extension HasDeadLetters { var asHasDeadLetters: (any HasDeadLetters)? { self } }
extension AnswersQuestions { var asAnswersQuestions: (any AnswersQuestions)? { self } }
extension Coordinates { var asCoordinates: (any Coordinates)? { self } }
extension TakesPart { var asTakesPart: (any TakesPart)? { self } }
extension RecordsSteps { var asRecordsSteps: (any RecordsSteps)? { self } }
