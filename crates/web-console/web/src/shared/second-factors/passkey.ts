// A new passkey of the browser (WebAuthn).

import { Refusal } from '../../api/request.ts'
import type { Fields } from '../../api/shapes.ts'
import { type Key, t } from '../../texts.ts'

/** False without WebAuthn, for example at an address with plain http. */
export const canUsePasskeys = (): boolean =>
  typeof PublicKeyCredential !== 'undefined' && 'parseCreationOptionsFromJSON' in PublicKeyCredential

const REASONS: { [name: string]: Key } = {
  InvalidStateError: 'factors.passkey.exists',
  NotAllowedError: 'factors.passkey.stopped',
}

/** Creates a passkey, and returns its credential in JSON. Throws a refusal whose text says what to do. */
export async function createPasskey(options: Fields): Promise<Fields> {
  try {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
      options as unknown as PublicKeyCredentialCreationOptionsJSON,
    )
    const credential = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
    return credential.toJSON() as unknown as Fields
  } catch (error) {
    const reason = REASONS[error instanceof DOMException ? error.name : ''] ?? 'factors.passkey.failed'
    throw new Refusal(400, { detail: t(reason) }, null, null)
  }
}
