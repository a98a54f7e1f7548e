// The test of a webhook, and the check of its signature by the receiver.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Instance } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { may, type PanelProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Copyable } from '../../kit/copyable.tsx'
import { Outcome } from '../../shared/outcome.tsx'
import { t } from '../../texts.ts'

/** Deliveries since the test was sent. */
const LATEST = 'limit=25'

export function WebhookTest({ instance, path }: PanelProps) {
  const [sentEvent, setSentEvent] = useState<Instance | undefined>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const deliveries = `${path}deliveries/`
  const isSame = (one: Instance) => one.event_id === sentEvent?.event_id
  const latest = useQuery({
    ...page(deliveries, LATEST),
    enabled: sentEvent !== undefined,
    refetchInterval: ({ state }) => (state.data?.results.find(isSame)?.status === 'pending' ? 1000 : false),
  })
  const now = latest.data?.results.find(isSame) ?? sentEvent
  // The list of deliveries must show the same.
  const status = now?.status
  useEffect(() => {
    if (status !== undefined && status !== 'pending') void invalidate(deliveries)
  }, [status, deliveries])
  if (instance.type !== 'webhook' || !may(instance, 'edit')) return null
  const run = async () => {
    setIsBusy(true)
    setError(undefined)
    setSentEvent(undefined)
    await call<Instance>('POST', `${path}test/`).then(({ data }) => setSentEvent(data), setError)
    await invalidate(deliveries)
    setIsBusy(false)
  }
  return (
    <section className={generic.section}>
      <h2>{t('integrations.trial')}</h2>
      <p className={css.hint}>{t('integrations.trial.hint')}</p>
      <div>
        <Button isDisabled={isBusy || status === 'pending'} onPress={() => void run()}>
          {t('integrations.test')}
        </Button>
      </div>
      <div role="status">
        {status === 'pending' && <p className={css.hint}>{t('integrations.trial.waiting')}</p>}
        {now && status !== 'pending' && <Told delivery={now} />}
      </div>
      {error !== undefined && <Failure error={error} />}
    </section>
  )
}

/** The answer of the receiver, and its meaning. */
function Told({ delivery: { status, response_status } }: { delivery: Instance }) {
  if (status === 'delivered')
    return <Outcome isGood title={t('integrations.trial.delivered', { status: Number(response_status) })} />
  if (response_status === null)
    return (
      <Outcome
        isGood={false}
        title={t('integrations.trial.silent')}
        advice={t('integrations.trial.silent.advice').split('\n')}
      />
    )
  const code = Number(response_status)
  const advice =
    code < 400
      ? t('integrations.trial.redirected')
      : code === 401 || code === 403
        ? t('integrations.trial.signature')
        : t('integrations.trial.other')
  return <Outcome isGood={false} title={t('integrations.trial.refused', { status: code })} advice={[advice]} />
}

const PYTHON = `from standardwebhooks.webhooks import Webhook

# Raises an error if the signature is wrong or older than five minutes.
event = Webhook("whsec_…").verify(body, headers)`

const JAVASCRIPT = `const { Webhook } = require("standardwebhooks");

// Throws an error if the signature is invalid or older than five minutes.
const event = new Webhook("whsec_…").verify(body, headers);`

export function Signature({ instance }: PanelProps) {
  if (instance.type !== 'webhook') return null
  return (
    <section className={generic.section}>
      <h2>{t('integrations.signature')}</h2>
      <p>{t('integrations.signature.text')}</p>
      {[
        ['Python', PYTHON],
        ['JavaScript', JAVASCRIPT],
      ].map(([name = '', code = '']) => (
        <details key={name} className={generic.set}>
          <summary>{name}</summary>
          <Copyable text={code} />
        </details>
      ))}
      <p className={css.hint}>{t('integrations.signature.hint')}</p>
    </section>
  )
}
