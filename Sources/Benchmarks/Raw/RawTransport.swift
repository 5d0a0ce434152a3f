/// What a raw pair goes over.
enum RawTransport: String, CaseIterable {
  case ipc, tcp, curve

  /// How it is called in a report.
  var title: String {
    switch self {
    case .ipc: "ipc"
    case .tcp: "tcp"
    case .curve: "tcp with CURVE"
    }
  }

  func endpoint(in directory: TemporaryDirectory) -> String {
    switch self {
    case .ipc: "ipc://" + directory.uniquePath("raw")
    case .tcp, .curve: "tcp://127.0.0.1:*"
    }
  }

  /// Keys that anybody may have: what they cost is measured. Source: zmq_curve(7), its example.
  static let server = (
    public: "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
    secret: "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
  )
  static let client = (
    public: "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
    secret: "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
  )
}
