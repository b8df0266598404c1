/// Rare situations that a campaign of runs must reach. A campaign that never reaches a situation does not test it.
enum Mark: Int, CaseIterable {
    case resent, parked, resumed, resumeWaited, fencedResume, fencedOut, tombstone, createRepeated
    case strangerRefused, conflict, outOfSequence, staleEpoch, notFound, invalidArgument, failedPrecondition
    case resourceExhausted, shuttingDown
    case idleExpired, restored, partialRollout, finals, plainFinals, askedLibrary
    case plainCards, plainReward, plainPolicyRollout, plainNetworkPlayed, plainSnapshotRestored,
        plainOtherRules
    case killedDuringJob, stoppedDuringJob, jobTooLate
    case damagedFile, tornFile, fullDisk, lostNames
    case snapshotRestored, networkPlayed, secondServerAsked, truncatedRequest
}
