// Files that anybody may download who has their address.

import { useRef, useState } from 'react'
import { invalidate } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Instance, Json } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { Failure } from '../../generic/failure.tsx'
import { Files } from '../../generic/files.tsx'
import look from '../../generic/generic.module.css'
import { Lines } from '../../generic/lines.tsx'
import { may } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import { Copyable } from '../../kit/copyable.tsx'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'

const PATH = '/api/files/public-storage/'

const Address = ({ value }: { value: Json }) => <Copyable text={`${value}`} />

export function PublicFiles() {
  const [deleting, setDeleting] = useState<Instance | undefined>()
  const [error, setError] = useState<unknown>()
  /** Each call gets all files since the page was opened, but each file is published once. */
  const published = useRef(new Set<Json>())
  const publish = async (tokens: Json[]) => {
    const left = tokens.filter((token) => !published.current.has(token))
    for (const token of left) {
      published.current.add(token)
      await call('POST', PATH, { body: { token } }).then(() => {
        setError(undefined)
        say(t('saved'))
      }, setError)
    }
    await invalidate(PATH)
  }
  const remove = async ({ uuid }: Instance) => {
    await call('DELETE', `${PATH}${uuid}/`).finally(() => invalidate(PATH))
    setDeleting(undefined)
  }
  return (
    <>
      <Lines
        path={PATH}
        title="public-files"
        columns={['filename', 'extension', 'url', 'created_at', 'created_by']}
        search="filename__icontains"
        views={{ url: Address }}
        line="uuid"
        actions={(file) =>
          may(file, 'delete') && (
            <Button
              look="quiet"
              icon="trash-2"
              aria-label={t('remove-one', { name: `${file.filename}${file.extension}` })}
              onPress={() => setDeleting(file)}
            />
          )
        }
      >
        {session()?.permissions?.files?.store && (
          <div className={look.reading}>
            <Files
              name="token"
              label={t('public-files.add')}
              value={[]}
              most={10}
              onChange={(tokens) => void publish(tokens)}
            />
          </div>
        )}
        {error !== undefined && <Failure error={error} />}
      </Lines>
      {deleting && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: `${deleting.filename}${deleting.extension}` })}
          text={t('public-files.deletes')}
          action={t('delete')}
          run={() => remove(deleting)}
          onClose={() => setDeleting(undefined)}
        />
      )}
    </>
  )
}
