import type { Collection, Document, UUID } from 'mongodb'

/** For each tag: which tags refuse it (cooperative), and for which it waits (assertive). It ignores the others. */
export interface Rules {
  [tag: string]: { cooperative?: readonly Other[]; assertive?: readonly Other[] }
}
/** Another tag. `allow` live entries of it are tolerated: 0 if it is not given. */
export type Other = string | { tag: string; allow?: number }

export const presets: {
  readonly exclusive: Rules
  readonly readPreferring: Rules
  readonly writePreferring: Rules
  readonly fair: Rules
  readonly multiGranularity: Rules
  semaphore(n: number): Rules
}

export interface LockerOptions {
  /** All clients of a collection must have the same rules. */
  rules: Rules
  /** For people: host and process, as "host/pid". */
  owner: string
  /** How long a lease is valid, in whole ms. The default is 10 s. */
  ttl?: number
  /** How long a waiting entry stays after its last confirm, in whole ms. The default is 5 s, at most the TTL. */
  waitTTL?: number
  /** By how much the servers' clocks may differ, in whole ms. The default is 500 ms. */
  clockTolerance?: number
}

export class Locker {
  constructor(collection: Collection<any>, options: LockerOptions)
  /** Decides once. Fails with ConflictError, NotFoundError, UnknownError, FormatError or an error of the server. */
  tryAcquire(id: any, tag: string, options?: { signal?: AbortSignal }): Promise<Lease>
  /** Waits, for maxWait ms at most, and then fails with ConflictError. The signal's reason is the error of an abort. */
  acquire(id: any, tag: string, options?: { maxWait?: number; signal?: AbortSignal }): Promise<Lease>
}

export interface Lease {
  /** Random, of this acquire alone. */
  readonly id: UUID
  /** The fencing token: it increases from grant to grant of a document. */
  readonly fence: number
  /** Whether the lock is held for certain, now. */
  valid(): boolean
  /** For how many ms it is held for certain. 0 after its end. */
  remaining(): number
  /**
   * Extends the lease by the TTL. Fails with LostError, also if the lease's time is up, UnknownError or an error of the
   * server.
   */
  renew(): Promise<void>
  /**
   * Writes the document if this lease still has the lock: operators, or a pipeline of $set, $addFields and $unset.
   * Updates of a lease are sent one after the other. LostError: it was not applied. UnknownError: it may be.
   */
  update(update: Document | Document[], options?: { arrayFilters?: Document[] }): Promise<void>
  /** Ends the validity at once, and removes the entry. It may be called again after UnknownError. */
  release(): Promise<void>
}

/** A live entry of a lock. */
export interface Entry {
  tag: string
  id: UUID
  owner: string
  /** Order of arrival. */
  seq: number
  /** Absent while the entry waits. */
  fence?: number
  /** Times of the server. Don't compare them with the clock of this machine. */
  since: Date
  expires: Date
  /** How long the entry still had when the server answered, in ms. */
  remaining: number
}

// The errors of a call. Any other one is the server's: it refused the command for good, and nothing was done.

/** Others hold the lock, or came earlier. */
export class ConflictError extends Error {
  readonly entries: Entry[]
}
/** The lease is over: others may hold the lock. */
export class LostError extends Error {}
/** Nobody knows whether the command was executed, or will be. An acquire holds nothing. */
export class UnknownError extends Error {}
/** No document has this _id. */
export class NotFoundError extends Error {}
/** The field is no lock, a newer version wrote it, or it can grant no more. To ask again does not help. */
export class FormatError extends Error {}
