package import TwofoldProtocol

/// The kinds of requests, named after the fields in `Request.op`.
package enum RequestKind: Int, CaseIterable {
    case hello, create, reset, step, observe, afterstates, close, snapshot, restore, expand, stats
    case resume, keepalive, rollout, policy

    package init(_ op: Request.OneOf_Op) {
        self =
            switch op {
            case .hello: .hello
            case .create: .create
            case .reset: .reset
            case .step: .step
            case .observe: .observe
            case .afterstates: .afterstates
            case .close: .close
            case .snapshot: .snapshot
            case .restore: .restore
            case .expand: .expand
            case .rollout: .rollout
            case .policy: .policy
            case .stats: .stats
            case .resume: .resume
            case .keepalive: .keepalive
            }
    }
}
