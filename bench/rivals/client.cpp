// The client of bench/rivals.sh: asks PostgreSQL, Redis or a filter value in memory for the same
// names, in the same loop. It is blocking: each of its connections sends one request and waits for
// the answer. Connections are threads.
//
//   client [OPTION...] pg CONNINFO SQL          prepared, with the name or a batch of names as $1
//   client [OPTION...] redis SOCKET COMMAND     the words of the command, then the names
//   client [OPTION...] value FILE               the C++ reader, on the bytes of a filter value
//
//   -c CONNECTIONS   1 unless given
//   -t SECONDS       for how long, 1 unless given; at least one request a connection
//   -n PREFIX,FIRST,LAST   the names: the prefix and a random number of that range, by a fixed seed
//   -r SEED          another seed
//   -a               each name of the range once, in order, instead; then -t does not count.
//                    Connections share them
//   -b BATCH         as many names in one request: an array, or that many words
//   -v WORD          a word after each name, as MSET wants it
//
// Prints microseconds a name as one connection sees them, how many answers were "there", and the
// number of names asked. Making a name counts, as it is the same for all.
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bloomfilter/filter.hpp"

namespace {

constexpr Oid kText = 25;
constexpr Oid kTextArray = 1009;

// Ends the program with a word of why.
[[noreturn]] void die(std::string_view why) {
  std::fprintf(stderr, "client: %.*s\n", static_cast<int>(why.size()), why.data());
  std::exit(1);
}

// What the command line says.
struct Options {
  int connections = 1;
  double seconds = 1;
  std::string prefix = "user";
  std::uint64_t first = 1;
  std::uint64_t last = 1'000'000;
  std::uint64_t seed = 1;
  bool all = false;
  std::size_t batch = 1;
  std::string value;
  std::vector<std::string> target;
};

// The names of one connection, one after another.
class Names {
 public:
  Names(const Options &options, int connection)
      : options_(options),
        state_(options.seed * 1000 + static_cast<std::uint64_t>(connection)),
        next_(options.first + static_cast<std::uint64_t>(connection)) {}

  // Whether the range is over; never, where names are random.
  bool over() const { return options_.all && next_ > options_.last; }

  // The next name, in the caller's string.
  void make(std::string &name) {
    const std::uint64_t range = options_.last - options_.first + 1;
    const std::uint64_t number = options_.all ? step() : options_.first + random() % range;
    char digits[20];
    const char *end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    name.assign(options_.prefix)
        .append(std::string_view(digits, static_cast<std::size_t>(end - digits)));
  }

 private:
  // SplitMix64: its steps from neighboring seeds have nothing in common.
  std::uint64_t random() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In order, connections take turns.
  std::uint64_t step() {
    const std::uint64_t number = next_;
    next_ += static_cast<std::uint64_t>(options_.connections);
    return number;
  }

  const Options &options_;
  std::uint64_t state_;
  std::uint64_t next_;
};

// Something that is asked. ask() returns how many of the names are there, as it answers.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual std::uint64_t ask(const std::vector<std::string> &names) = 0;
};

// A big-endian number of four bytes, as PostgreSQL's binary formats have it.
std::uint32_t read_number(const char *bytes) {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}
void append_number(std::string &bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
}

// A prepared statement whose result is one boolean, or an array of them where names come in
// batches.
class Postgres : public Connection {
 public:
  Postgres(const Options &options)
      : batched_(options.batch > 1), connection_(PQconnectdb(options.target[1].c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) die(PQerrorMessage(connection_));
    const Oid type = batched_ ? kTextArray : kText;
    PGresult *result = PQprepare(connection_, "ask", options.target[2].c_str(), 1, &type);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) die(PQerrorMessage(connection_));
    PQclear(result);
  }
  ~Postgres() override { PQfinish(connection_); }

  std::uint64_t ask(const std::vector<std::string> &names) override {
    if (batched_) write_array(names);
    const std::string &argument = batched_ ? array_ : names[0];
    const char *values[] = {argument.c_str()};
    const int lengths[] = {static_cast<int>(argument.size())};
    const int formats[] = {1};
    PGresult *result = PQexecPrepared(connection_, "ask", 1, values, lengths, formats, 1);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) die(PQerrorMessage(connection_));
    const std::uint64_t there = PQntuples(result) > 0 ? count(result) : 0;
    PQclear(result);
    return there;
  }

 private:
  // text[]: dimensions, no nulls, type, length, lower bound, and the items.
  void write_array(const std::vector<std::string> &names) {
    array_.clear();
    for (const std::uint32_t number : {std::uint32_t{1}, std::uint32_t{0}, std::uint32_t{kText},
                                       static_cast<std::uint32_t>(names.size()), std::uint32_t{1}})
      append_number(array_, number);
    for (const std::string &name : names) {
      append_number(array_, static_cast<std::uint32_t>(name.size()));
      array_.append(name);
    }
  }

  // How many booleans of the result are true. In an array each has its length, four bytes, before
  // it.
  std::uint64_t count(const PGresult *result) const {
    const char *bytes = PQgetvalue(result, 0, 0);
    if (PQgetlength(result, 0, 0) == 1) return bytes[0] == 1;
    if (!batched_) return 0;
    const std::uint32_t items = read_number(bytes + 12);
    std::uint64_t there = 0;
    for (std::uint32_t i = 0; i < items; ++i) there += bytes[20 + 5 * i + 4] == 1;
    return there;
  }

  bool batched_;
  PGconn *connection_;
  std::string array_;
};

// A command of Redis. There is what it calls 1, or a string.
class Redis : public Connection {
 public:
  Redis(const Options &options)
      : value_(options.value), context_(redisConnectUnix(options.target[1].c_str())) {
    if (context_ == nullptr || context_->err != 0) die("no connection to Redis");
    for (std::size_t i = 2; i < options.target.size(); ++i) words_.push_back(options.target[i]);
  }
  ~Redis() override { redisFree(context_); }

  std::uint64_t ask(const std::vector<std::string> &names) override {
    arguments_.clear();
    lengths_.clear();
    for (const std::string &word : words_) append(word);
    for (const std::string &name : names) {
      append(name);
      if (!value_.empty()) append(value_);
    }
    auto *reply = static_cast<redisReply *>(redisCommandArgv(
        context_, static_cast<int>(arguments_.size()), arguments_.data(), lengths_.data()));
    if (reply == nullptr) die(context_->errstr);
    const std::uint64_t there = count(*reply);
    freeReplyObject(reply);
    return there;
  }

 private:
  void append(const std::string &word) {
    arguments_.push_back(word.data());
    lengths_.push_back(word.size());
  }

  static std::uint64_t count(const redisReply &reply) {
    if (reply.type == REDIS_REPLY_ERROR) die({reply.str, reply.len});
    if (reply.type == REDIS_REPLY_INTEGER) return reply.integer == 1;
    if (reply.type == REDIS_REPLY_STRING) return 1;
    std::uint64_t there = 0;
    for (std::size_t i = 0; i < reply.elements; ++i) there += count(*reply.element[i]);
    return there;
  }

  std::string value_;
  redisContext *context_;
  std::vector<std::string> words_;
  std::vector<const char *> arguments_;
  std::vector<std::size_t> lengths_;
};

// A filter value, read into memory as a program that checks by itself would have it.
class Value : public Connection {
 public:
  Value(std::span<const std::uint8_t> bytes) {
    if (view_.open(bytes) != bloomfilter::FormatError::kNone || !hasher_.open())
      die("not a filter value");
  }
  ~Value() override { hasher_.close(); }

  std::uint64_t ask(const std::vector<std::string> &names) override {
    std::uint64_t there = 0;
    for (const std::string &name : names)
      there += view_.might_contain(hasher_, name) != bloomfilter::Answer::kDefinitelyNot;
    return there;
  }

  // The file's bytes, on huge pages where the system gives them.
  static std::span<const std::uint8_t> load(const std::string &file) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    struct stat status;
    const int descriptor = open(file.c_str(), O_RDONLY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) die("cannot read " + file);
    const auto size = static_cast<std::size_t>(status.st_size);
    auto *bytes = static_cast<std::uint8_t *>(
        std::aligned_alloc(kHugePage, (size + kHugePage) / kHugePage * kHugePage));
    if (bytes == nullptr) die("no memory for " + file);
    madvise(bytes, size, MADV_HUGEPAGE);
    for (std::size_t done = 0; done < size;) {
      const ssize_t got = read(descriptor, bytes + done, size - done);
      if (got <= 0) die("cannot read " + file);
      done += static_cast<std::size_t>(got);
    }
    close(descriptor);
    return {bytes, size};
  }

 private:
  bloomfilter::FilterView view_;
  bloomfilter::Hasher hasher_;
};

// What one connection did.
struct Tally {
  std::uint64_t names = 0;
  std::uint64_t there = 0;
  double seconds = 0;
};

// Asks until the time or the names are over. Names of a large batch are made before the clock
// starts. A value in memory answers faster than a clock, so that one is read now and then.
void run(const Options &options, Connection &connection, Names &names, Tally &tally) {
  using Clock = std::chrono::steady_clock;
  const bool batched = options.batch > 1;
  const int between = options.target[0] == "value" && !batched ? 64 : 1;
  std::vector<std::string> batch;
  const auto make = [&] {
    batch.resize(options.batch);
    std::size_t made = 0;
    while (made < batch.size() && !names.over()) names.make(batch[made++]);
    batch.resize(made);
  };
  do {
    if (batched) make();
    const auto start = Clock::now();
    for (int i = 0; i < between; ++i) {
      if (!batched) make();
      tally.there += connection.ask(batch);
      tally.names += batch.size();
      if (names.over()) break;
    }
    tally.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  } while (options.all ? !names.over() : tally.seconds < options.seconds);
}

// Reads the command line, or ends the program.
Options parse(int count, char **words) {
  Options options;
  int letter;
  while ((letter = getopt(count, words, "+c:t:n:r:ab:v:")) != -1) switch (letter) {
      case 'c':
        options.connections = std::atoi(optarg);
        break;
      case 't':
        options.seconds = std::atof(optarg);
        break;
      case 'r':
        options.seed = std::strtoull(optarg, nullptr, 10);
        break;
      case 'a':
        options.all = true;
        break;
      case 'b':
        options.batch = std::strtoull(optarg, nullptr, 10);
        break;
      case 'v':
        options.value = optarg;
        break;
      case 'n': {
        char prefix[32];
        unsigned long long first, last;
        if (std::sscanf(optarg, "%31[^,],%llu,%llu", prefix, &first, &last) != 3 || first > last)
          die("-n PREFIX,FIRST,LAST");
        options.prefix = prefix;
        options.first = first;
        options.last = last;
        break;
      }
      default:
        die("see the head of client.cpp");
    }
  options.target.assign(words + optind, words + count);
  const std::size_t words_needed = !options.target.empty() && options.target[0] == "value" ? 2 : 3;
  if (options.last - options.first + 1 < static_cast<std::uint64_t>(options.connections))
    die("fewer names than connections");
  if (options.target.size() < words_needed || options.connections < 1 || options.batch < 1)
    die("see the head of client.cpp");
  return options;
}

}  // namespace

int main(int count, char **words) {
  const Options options = parse(count, words);
  std::span<const std::uint8_t> bytes;
  if (options.target[0] == "value") bytes = Value::load(options.target[1]);
  std::vector<Tally> tallies(static_cast<std::size_t>(options.connections));
  std::vector<std::thread> threads;
  std::latch ready(options.connections);
  for (int i = 0; i < options.connections; ++i)
    threads.emplace_back([&, i] {
      std::unique_ptr<Connection> connection;
      if (options.target[0] == "pg")
        connection = std::make_unique<Postgres>(options);
      else if (options.target[0] == "redis")
        connection = std::make_unique<Redis>(options);
      else
        connection = std::make_unique<Value>(bytes);
      Names names(options, i);
      ready.arrive_and_wait();
      run(options, *connection, names, tallies[static_cast<std::size_t>(i)]);
    });
  for (std::thread &thread : threads) thread.join();
  Tally all;
  for (const Tally &tally : tallies) {
    all.names += tally.names;
    all.there += tally.there;
    all.seconds += tally.seconds;
  }
  std::printf("%.4f %llu %llu\n", all.seconds * 1e6 / static_cast<double>(all.names),
              static_cast<unsigned long long>(all.there),
              static_cast<unsigned long long>(all.names));
}
