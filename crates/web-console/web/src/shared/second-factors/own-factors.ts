// The second factors of the signed-in person, as the API answers them.

import { anything, page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Fields } from '../../api/shapes.ts'
import { isPerson } from '../../resources/users.ts'

export const FACTORS = '/api/users/me/second-factors/'
export const RECOVERY_CODES = `${FACTORS}recovery-codes/`

export const mayHaveFactors = (): boolean => isPerson(session()?.user?.account_type)

/** All factors: an account has at most ten. */
export const ownFactors = page(FACTORS, 'limit=25')

export const codesLeft = anything<{ left: number }>(RECOVERY_CODES)

/** A factor that waits for its first proof. */
export type Unconfirmed = Fields & {
  id: number
  /** Of an authenticator app: its secret, and the address with the secret that a QR code contains. */
  secret?: string
  uri?: string
  /** Of a passkey: the options of WebAuthn. */
  options?: Fields
}

/** The confirmed factor. The first factor of an account comes with its recovery codes. */
export type Confirmed = Fields & { name: string; recovery_codes?: string[] }
