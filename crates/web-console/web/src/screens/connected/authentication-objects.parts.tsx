import { useState } from 'react'
import { call } from '../../api/request.ts'
import type { TokenTrial } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { may, type PanelProps, type Parts } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Failed, Outcome } from '../../shared/outcome.tsx'
import { t } from '../../texts.ts'

/** Requests a token with the stored settings, and discards it. */
function Trial({ instance, path }: PanelProps) {
  const [tried, setTried] = useState<TokenTrial | undefined>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  if (!may(instance, 'edit') || instance.provider !== 'vendor_client_credentials') return null
  const run = async () => {
    setIsBusy(true)
    setTried(undefined)
    setError(undefined)
    await call<TokenTrial>('POST', `${path}test/`).then(({ data }) => setTried(data), setError)
    setIsBusy(false)
  }
  return (
    <section className={look.section}>
      <h2>{t('try-it')}</h2>
      <p className={css.hint}>{t('token.try')}</p>
      <div>
        <Button isDisabled={isBusy} onPress={() => void run()}>
          {t('try-it')}
        </Button>
      </div>
      <div role="status">
        {isBusy && <p className={css.hint}>{t('token.trying')}</p>}
        {tried?.status === 'success' && <Outcome isGood title={t('token.issued')} />}
        {tried?.status === 'failure' && <Failed kind="token" message={tried.msg} />}
      </div>
      {error !== undefined && <Failure error={error} />}
    </section>
  )
}

export const parts: Parts = { panels: [Trial] }
