import { useState } from 'react'
import { call } from '../api/request.ts'
import type { Json } from '../api/shapes.ts'
import { Failure } from '../generic/failure.tsx'
import look from '../generic/generic.module.css'
import { may, type PanelProps, type Parts } from '../generic/resource.ts'
import { Button } from '../kit/buttons.tsx'
import { Copyable } from '../kit/copyable.tsx'
import { t } from '../texts.ts'

const Address = ({ value }: { value: Json }) => <Copyable text={`${value}`} />

/** A sign-in that shows what the provider says and whom that meets, and changes nothing. */
function Trial({ instance, path }: PanelProps) {
  const [error, setError] = useState<unknown>()
  if (!may(instance, 'edit')) return null
  const run = async () => {
    // The window is opened at once: later, browsers take it for an advertisement.
    const shown = window.open('', '_blank')
    await call<{ redirect_uri: string }>('POST', `${path}test/`).then(
      ({ data }) => {
        setError(undefined)
        if (shown) shown.location.href = data.redirect_uri
      },
      (refused) => {
        shown?.close()
        setError(refused)
      },
    )
  }
  return (
    <section className={look.section}>
      <h2>{t('try-it')}</h2>
      <p>{t('single-sign-on.try')}</p>
      {error !== undefined && <Failure error={error} />}
      <div>
        <Button onPress={() => void run()}>{t('try-it')}</Button>
      </div>
    </section>
  )
}

export const parts: Parts = { views: { redirect_uri: Address, logout_url: Address }, panels: [Trial] }
