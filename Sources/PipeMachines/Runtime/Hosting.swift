/// What a node gives to the machine that it hosts; its runtime knows more of it.
public protocol _Hosting {}

/// A machine as a node holds it; its runtime knows more of it.
public protocol _HostedMachine {}
