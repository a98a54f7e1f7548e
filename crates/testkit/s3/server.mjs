// The S3 server for tests: one bucket, keys S3RVER and S3RVER, signatures checked.
// Its one argument is JSON: {"directory": "…", "bucket": "files", "port": 0}, where 0 is any port. It prints its port, and ends when its standard input
// does.
import S3rver from '@20minutes/s3rver';

const { directory, bucket, port: wanted } = JSON.parse(process.argv[2]);
const server = new S3rver({
  address: '127.0.0.1', port: wanted, silent: true, directory, configureBuckets: [{ name: bucket }],
  allowMismatchedSignatures: false,
});
const { port } = await server.run();
console.log(`port ${port}`);
process.stdin.on('end', () => process.exit());
process.stdin.resume();
