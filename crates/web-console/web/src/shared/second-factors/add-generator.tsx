// Adds an authenticator app: a name, then the QR code with the secret, then the first code.

import { useState } from 'react'
import { call } from '../../api/request.ts'
import { Copyable } from '../../kit/copyable.tsx'
import { Dialog } from '../../kit/dialogs.tsx'
import { TextField } from '../../kit/fields.tsx'
import { named, t } from '../../texts.ts'
import { type Confirmed, FACTORS, type Unconfirmed } from './own-factors.ts'
import { QrCode } from './qr-code.tsx'
import look from './second-factors.module.css'
import { Step, useSending } from './step.tsx'
import { freeName, grouped } from './words.ts'

export interface AddProps {
  /** The names of the other factors. */
  names: string[]
  onAdded: (factor: Confirmed) => void
  onClose: () => void
}

export function AddGenerator({ names, onAdded, onClose }: AddProps) {
  const [name, setName] = useState(() => freeName(t('factors.totp'), names))
  const [unconfirmed, setUnconfirmed] = useState<Unconfirmed | undefined>()
  const sending = useSending()
  const begin = () =>
    sending.send(async () => {
      setUnconfirmed((await call<Unconfirmed>('POST', FACTORS, { body: { type: 'totp', name } })).data)
    })
  return (
    <Dialog title={t('factors.add-totp')} isOpen onClose={onClose}>
      {unconfirmed ? (
        <FirstCode key={unconfirmed.id} factor={unconfirmed} onAdded={onAdded} onClose={onClose} />
      ) : (
        <Step sending={sending} submit={t('continue')} onSubmit={begin} onCancel={onClose}>
          <p>{t('factors.totp.text')}</p>
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
      )}
    </Dialog>
  )
}

function FirstCode({ factor, onAdded, onClose }: Omit<AddProps, 'names'> & { factor: Unconfirmed }) {
  const [code, setCode] = useState('')
  const sending = useSending()
  const confirm = () =>
    sending.send(async () => {
      const { data } = await call<Confirmed>('POST', `${FACTORS}${factor.id}/confirm/`, {
        body: { code: code.replaceAll(/\s/g, '') },
      })
      onAdded(data)
    })
  return (
    <Step sending={sending} submit={t('factors.confirm')} onSubmit={confirm} onCancel={onClose}>
      <ol className={look.steps}>
        <li>{t('factors.totp.scan')}</li>
        <li>{t('factors.totp.enter')}</li>
      </ol>
      <QrCode text={`${factor.uri}`} label={t('factors.qr')} />
      <div>
        <p>{t('factors.totp.by-hand')}</p>
        <Copyable text={`${factor.secret}`} shown={grouped(`${factor.secret}`)} />
      </div>
      <TextField
        name="code"
        label={t('factors.code')}
        isRequired
        isNarrow
        inputMode="numeric"
        autoComplete="one-time-code"
        autoFocus
        value={code}
        onChange={setCode}
      />
    </Step>
  )
}
