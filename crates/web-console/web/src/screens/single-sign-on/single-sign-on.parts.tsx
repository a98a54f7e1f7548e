import { useState } from 'react'
import { invalidate } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Json, SignInTrial } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { type InputProps, may, type PanelProps, type Parts } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Copyable } from '../../kit/copyable.tsx'
import { TextField } from '../../kit/fields.tsx'
import { say } from '../../kit/toasts.tsx'
import { labelOf, t } from '../../texts.ts'

const Address = ({ value }: { value: Json }) => <Copyable text={`${value}`} />

/** The addresses have the number of the configuration in them: there are none before it is made. */
const NotYet = () => <p>{t('single-sign-on.addresses.later')}</p>

/** Ids are pasted, and never break into lines, however long they may be. */
const Id = ({ field, name, value, onChange }: InputProps) => (
  <TextField name={name} label={labelOf(field)} isRequired value={`${value ?? ''}`} onChange={onChange} />
)

/** A trial of the sign-in that shows the provider's claims and the matching account, without changes. */
function Trial({ instance, path }: PanelProps) {
  const [error, setError] = useState<unknown>()
  if (!may(instance, 'edit')) return null
  const run = async () => {
    // The window is opened at once: later, browsers take it for an advertisement.
    const window_ = window.open('', '_blank')
    await call<SignInTrial>('POST', `${path}test/`).then(
      ({ data }) => {
        setError(undefined)
        if (window_) window_.location.href = data.redirect_uri
      },
      (refused) => {
        window_?.close()
        setError(refused)
      },
    )
  }
  const enable = async (isEnabled: boolean) => {
    await call('PATCH', path, { body: { is_enabled: isEnabled } }).then(
      () =>
        say(t(isEnabled ? 'single-sign-on.enabled' : 'single-sign-on.disabled'), {
          undo: () => void enable(!isEnabled),
        }),
      setError,
    )
    await invalidate('/api/single-sign-on/')
  }
  return (
    <>
      <section className={look.step}>
        <h2>{t('try-it')}</h2>
        <p className={css.hint}>{t('single-sign-on.try')}</p>
        {error !== undefined && <Failure error={error} />}
        <div>
          <Button onPress={() => void run()}>{t('try-it')}</Button>
        </div>
      </section>
      {instance.is_enabled !== true && (
        <section className={look.step}>
          <h2>{t('single-sign-on.enable')}</h2>
          <p className={css.hint}>{t('single-sign-on.enable.hint')}</p>
          <div>
            <Button onPress={() => void enable(true)}>{t('single-sign-on.enable')}</Button>
          </div>
        </section>
      )}
    </>
  )
}

export const parts: Parts = {
  inputs: { redirect_uri: NotYet, tenant_id: Id, client_id: Id },
  views: { redirect_uri: Address, logout_url: Address },
  panels: [Trial],
}
