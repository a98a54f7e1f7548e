// Adds a passkey: a name, then the dialog of the browser.

import { useState } from 'react'
import { call, Refusal } from '../../api/request.ts'
import { Dialog } from '../../kit/dialogs.tsx'
import { TextField } from '../../kit/fields.tsx'
import { named, t } from '../../texts.ts'
import type { AddProps } from './add-generator.tsx'
import { type Confirmed, FACTORS, type Unconfirmed } from './own-factors.ts'
import { createPasskey } from './passkey.ts'
import { Step, useSending } from './step.tsx'
import { freeName } from './words.ts'

/** A refused credential has no field in the form, so it is the failure of the whole step. */
function withoutField(error: unknown): never {
  const isOfCredential = error instanceof Refusal && error.status === 400 && error.body.credential !== undefined
  throw isOfCredential ? error.saying({ detail: t('factors.passkey.refused') }) : error
}

export function AddPasskey({ names, onAdded, onClose }: AddProps) {
  const [name, setName] = useState(() => freeName(t('factors.passkey'), names))
  const sending = useSending()
  const add = () =>
    sending.send(async () => {
      const { data: unconfirmed } = await call<Unconfirmed>('POST', FACTORS, { body: { type: 'passkey', name } })
      const credential = await createPasskey(unconfirmed.options ?? {})
      const body = { credential }
      const answer = await call<Confirmed>('POST', `${FACTORS}${unconfirmed.id}/confirm/`, { body }).catch(withoutField)
      onAdded(answer.data)
    })
  return (
    <Dialog title={t('factors.add-passkey')} isOpen onClose={onClose}>
      <Step sending={sending} submit={t('continue')} onSubmit={add} onCancel={onClose}>
        <p>{t('factors.passkey.text')}</p>
        <TextField
          name="name"
          label={named('field', 'name')}
          hint={t('factors.name.hint')}
          isRequired
          maxLength={100}
          autoFocus
          value={name}
          onChange={setName}
        />
      </Step>
    </Dialog>
  )
}
