import { useState } from 'react'
import { call } from '../../api/request.ts'
import type { Fields } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import type { PanelProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Icon } from '../../kit/icons.tsx'
import { type Key, t } from '../../texts.ts'
import look from './connected.module.css'
import { documentsOf, type Finding, findings } from './metadata.ts'

const read = async (path: string) => (await call<Fields>('GET', path, { isPublic: true })).data

/** Reads the metadata that agents read before they sign in, and checks it. */
export function MetadataCheck({ instance }: PanelProps) {
  const [results, setResults] = useState<Finding[] | undefined>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const url = `${instance.server_url}`
  const documents = documentsOf(url)
  if (!documents) return null
  const run = async () => {
    setIsBusy(true)
    setError(undefined)
    await Promise.all([read(documents.resource), read(documents.server)]).then(
      ([resource, server]) => setResults(findings(url, location.origin, resource, server)),
      setError,
    )
    setIsBusy(false)
  }
  const wrong = results?.filter(({ isRight }) => !isRight).length ?? 0
  return (
    <section className={generic.section}>
      <h2>{t('metadata')}</h2>
      <p className={css.hint}>{t('metadata.hint')}</p>
      <div>
        <Button isDisabled={isBusy} onPress={() => void run()}>
          {t('metadata.check')}
        </Button>
      </div>
      <div role="status">{results && <p>{t('metadata.found', { wrong })}</p>}</div>
      {error !== undefined && <Failure error={error} />}
      {results && (
        <ul className={look.found}>
          {results.map(({ id, isRight, found: what }) => (
            <li key={id} data-wrong={isRight ? undefined : ''}>
              <Icon name={isRight ? 'check' : 'x'} />
              <span>
                {t(`metadata.${id}${isRight ? '' : '.wrong'}` as Key)}
                {!isRight && what && (
                  <>
                    {' '}
                    <code>{what}</code>
                  </>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
